"""Where do gradients lie on the number line of fp16?"""

import math
from collections.abc import Mapping

from torch import Tensor

from course_utils import colours
from course_utils.show.picture import Picture, axes

SMALLEST_NORMAL, SMALLEST = -14, -24  # exponents of fp16
SHADES = (colours.GRADIENTS, colours.NEUTRAL)


def gradient_exponents(gradients: Mapping[str, Tensor]) -> Picture:
    """How many gradients have which power of two, with what fp16 makes of them.

    Args:
        gradients: One or two tensors by name; zeros are left out.
    """
    figure, pair = axes(height=2.8)
    told = []
    for (name, tensor), colour in zip(gradients.items(), SHADES, strict=False):
        values = tensor.detach().flatten().abs().double()
        values = values[values > 0]
        exponents = values.log2().floor().int()
        powers = range(int(exponents.min()), int(exponents.max()) + 1)
        shares = [float((exponents == power).double().mean()) for power in powers]
        pair.step([*powers, powers.stop], [*shares, 0], where="post", color=colour, label=name)
        lost = float((values <= math.ldexp(1, SMALLEST - 1)).double().mean())
        coarse = float((values < math.ldexp(1, SMALLEST_NORMAL)).double().mean()) - lost
        told.append(f"{name}: {_share(lost)} become zero in fp16, {_share(coarse)} keep fewer bits")
    for power, words in ((SMALLEST_NORMAL, "← fewer bits "), (SMALLEST - 1, "← zero ")):
        pair.axvline(power, color=colours.NEUTRAL, linestyle=":")
        pair.text(power, 1, words, ha="right", va="top", transform=pair.get_xaxis_transform())
    pair.xaxis.set_major_formatter(lambda power, _: f"$2^{{{power:.0f}}}$")
    pair.set_xlabel("size of a gradient, to the next power of two below it")
    pair.set_ylabel("share of the gradients")
    pair.legend(frameon=False, loc="center left")
    return Picture(figure, f"Gradients of {'; '.join(told)}.")


def _share(share: float) -> str:
    """With a digit that is not zero, where there is one."""
    return f"{share:.2%}" if 0 < share < 0.0005 else f"{share:.1%}"
