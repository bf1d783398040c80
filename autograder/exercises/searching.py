"""Search for a number where no formula is to be used."""

from collections.abc import Callable


def least(is_met: Callable[[int], bool]) -> int:
    """The least whole number, from 0 on, that meets what every larger one meets, too."""
    low, high = 0, 1
    while not is_met(high):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_met(middle) else (middle + 1, high)
    return low
