"""Every drawer by the id of its exercise."""

from tests.drawers import Drawer, u00, u01, u03, u04, u05_build, u05_choose

DRAWERS: dict[str, Drawer] = (
    u00.DRAWERS | u01.DRAWERS | u03.DRAWERS | u04.DRAWERS | u05_build.DRAWERS | u05_choose.DRAWERS
)
