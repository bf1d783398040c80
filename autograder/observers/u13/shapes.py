"""The shape of a result, without which nothing about its numbers can be said."""

from torch import Tensor


def of_shape(result: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A result that has the shape which the card asks for.

    Raises:
        TypeError: If it has another one; the message says both.
    """
    if result.shape != shape:
        raise TypeError(f"wanted a tensor of shape {shape}, got one of {tuple(result.shape)}")
    return result
