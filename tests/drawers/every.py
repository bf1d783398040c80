"""Every drawer by the id of its exercise."""

from tests.drawers import (
    Drawer,
    u00,
    u01,
    u03,
    u04_repair,
    u04_trace,
    u05_build,
    u05_choose,
    u09_buckets,
    u09_choose,
)

MODULES = (*(u00, u01, u03, u04_trace, u04_repair, u05_build, u05_choose, u09_buckets, u09_choose),)
DRAWERS: dict[str, Drawer] = {
    name: drawer for module in MODULES for name, drawer in module.DRAWERS.items()
}
