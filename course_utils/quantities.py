"""Bytes and seconds with the unit that suits their size.

>>> format_bytes(14_260_633_600), format_seconds(0.07316)
('13.28 GiB', '73.16 ms')
"""

Unit = tuple[float, str]
"""Its size and its name."""

BYTES: tuple[Unit, ...] = tuple(
    (1024**power, name) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))
)
SECONDS: tuple[Unit, ...] = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))


def unit_of(amount: float, units: tuple[Unit, ...]) -> Unit:
    """The largest of some units that fits into an amount; the smallest if none does."""
    return next((unit for unit in reversed(units) if amount >= unit[0]), units[0])


def format_bytes(num_bytes: int, digits: int = 2) -> str:
    """Bytes with a binary unit, and ``digits`` after the point; whole below 1 KiB."""
    size, name = unit_of(num_bytes, BYTES)
    return f"{num_bytes / size:,.{digits if size > 1 else 0}f} {name}"


def format_seconds(seconds: float) -> str:
    """Seconds with a unit, and two digits after the point; zero in milliseconds."""
    size, name = unit_of(seconds or 1e-3, SECONDS)
    return f"{seconds / size:,.2f} {name}"
