"""What Python does at the start and at the end of a program that nobody here needs."""

import atexit
import gc
import sys
from types import ModuleType

GRAMMAR = "rfc3987_syntax"


def skip_slow_imports() -> None:
    """Spare a program more than a second at its start and nearly one at its end.

    To import `nbformat` imports `jsonschema`, which compiles a grammar of international addresses
    where that is installed, though no schema of a notebook has any: with an empty module in its
    place `jsonschema` goes without. At the end Python collects garbage, object by object, in all
    that torch has imported; the operating system frees it at once.
    """
    sys.modules.setdefault(GRAMMAR, ModuleType(GRAMMAR))
    atexit.register(gc.freeze)
