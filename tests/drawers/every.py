"""Every drawer by the id of its exercise."""

from tests.drawers import Drawer, u00, u01, u03, u04_second

DRAWERS: dict[str, Drawer] = u00.DRAWERS | u01.DRAWERS | u03.DRAWERS | u04_second.DRAWERS
