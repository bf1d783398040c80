"""Is everything here that the notebooks need? The first cell of every notebook asks this.

Standard library only, so that the answer comes even where nothing is installed.
"""

import importlib.metadata
import importlib.util
import platform

WANTED = ("torch", "matplotlib", "pandas", "ipywidgets", "jupyterlab", "nbgrader")


def check_setup() -> None:
    """Print the versions and the device, and say plainly what is missing."""
    missing = [name for name in WANTED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"Missing: {', '.join(missing)}. Close JupyterLab and start it with `make lab`.")
        return
    torch_version = importlib.metadata.version("torch")
    print(f"Python {platform.python_version()} · torch {torch_version} · {device_in_words()}")


def device_in_words() -> str:
    """The device on which notebooks run, and what that means for the course."""
    import torch

    if torch.cuda.is_available():
        return f"GPU {torch.cuda.get_device_name()}"
    return "CPU: every exercise can be solved and graded on it."
