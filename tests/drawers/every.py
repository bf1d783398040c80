"""Every drawer by the id of its exercise, from all modules of this folder."""

import importlib
import pkgutil

from tests import drawers
from tests.drawers import Drawer

MODULES = [
    importlib.import_module(f"tests.drawers.{found.name}")
    for found in pkgutil.iter_modules(drawers.__path__)
    if found.name != "every"
]
DRAWERS: dict[str, Drawer] = {
    name: drawer for module in MODULES for name, drawer in module.DRAWERS.items()
}
