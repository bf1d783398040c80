"""Every drawer by the id of its exercise."""

from tests.drawers import Drawer, u00, u01, u03, u05_second

DRAWERS: dict[str, Drawer] = u00.DRAWERS | u01.DRAWERS | u03.DRAWERS | u05_second.DRAWERS
