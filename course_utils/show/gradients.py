"""How many gradients are too small for fp16?"""

import math
from collections.abc import Mapping

from torch import Tensor

from course_utils import colours
from course_utils.show.picture import AT_TOP, Picture, axes, note, power_of_two

SMALLEST_NORMAL, SMALLEST = -14, -24  # exponents of fp16
SHADES = (colours.GRADIENTS, colours.NEUTRAL)


def gradient_exponents(gradients: Mapping[str, Tensor]) -> Picture:
    """A histogram of gradients by power of two, with the limits of fp16.

    Args:
        gradients: One or two tensors, by name; zeros are left out.
    """
    figure, ax = axes()
    described = []
    for (name, tensor), colour in zip(gradients.items(), SHADES, strict=False):
        values = tensor.detach().flatten().abs().double()
        values = values[values > 0]
        exponents = values.log2().floor().int()
        powers = range(int(exponents.min()), int(exponents.max()) + 1)
        shares = [float((exponents == power).double().mean()) for power in powers]
        ax.step([*powers, powers.stop], [*shares, 0], where="post", color=colour, label=name)
        # fp16 rounds the tie between zero and its smallest number to zero.
        lost = float((values <= math.ldexp(1, SMALLEST - 1)).double().mean())
        coarse = float((values < math.ldexp(1, SMALLEST_NORMAL)).double().mean()) - lost
        described.append(
            f"{name}: {_percent(lost)} become zero in fp16, {_percent(coarse)} keep fewer bits"
        )
    for power, words in ((SMALLEST_NORMAL, "← fewer bits"), (SMALLEST - 1, "← zero")):
        ax.axvline(power, color=colours.NEUTRAL, linestyle=":")
        note(ax, words, (power, 1), (-4, 0), xycoords=AT_TOP, ha="right", va="top")
    ax.xaxis.set_major_formatter(lambda power, _: power_of_two(power))
    ax.set_xlabel("absolute value of a gradient, rounded down to a power of two")
    ax.set_ylabel("share of the gradients")
    ax.legend(frameon=False, loc="center left")
    return Picture(figure, f"Gradients of {'; '.join(described)}.")


def _percent(share: float) -> str:
    """A share in percent, with enough digits to show a small one."""
    return f"{share:.2%}" if 0 < share < 0.0005 else f"{share:.1%}"
