"""A backward pass in two halves: first the gradient that others wait for, later those of weights.

Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 2.
"""

from collections.abc import Callable, Sequence

from torch import Tensor


def backward_in_halves(
    weights: Sequence[Tensor], kept: Sequence[Tensor], upstream: Tensor
) -> tuple[Tensor, Callable[[], list[Tensor]]]:
    """The gradient of the input of ``x = tanh(x @ weight)``, layer by layer, and the other half.

    Args:
        weights: Of each layer, (in, out).
        kept: The input of each layer, and the output of the last.
        upstream: Gradient of that output.

    Returns:
        The gradient of the first input, and a function that gives those of the weights.
    """
    gradient = upstream
    of_products = []
    for weight, output in zip(reversed(weights), reversed(kept[1:]), strict=True):
        of_product = gradient * (1 - output**2)
        of_products.append(of_product)
        gradient = of_product @ weight.T

    def weight_gradients() -> list[Tensor]:
        pairs = zip(kept[:-1], reversed(of_products), strict=True)
        return [given.T @ of_product for given, of_product in pairs]

    return gradient, weight_gradients
