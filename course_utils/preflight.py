"""Is everything installed that the notebooks need? Every notebook checks it in its first cell.

Standard library only, so it answers even if nothing is installed.
"""

import importlib.metadata
import importlib.util
import platform

REQUIRED = ("torch", "matplotlib", "pandas", "ipywidgets", "anywidget", "jupyterlab", "nbgrader")


def check_setup() -> None:
    """Print versions and device, or what is missing."""
    missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"Missing: {', '.join(missing)}. Close JupyterLab and start it with `make lab`.")
        return
    torch_version = importlib.metadata.version("torch")
    print(f"Python {platform.python_version()} · torch {torch_version} · {describe_device()}")


def describe_device() -> str:
    """The device on which notebooks run; for a CPU, that it is enough."""
    import torch

    if torch.cuda.is_available():
        return f"GPU {torch.cuda.get_device_name()}"
    return "CPU: every exercise can be solved and graded on it."
