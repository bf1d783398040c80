"""The shape of a result, without which nothing about its numbers can be said."""

from torch import Tensor

from autograder.checking.result_form import WrongForm


def of_shape(result: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A result that has the shape which the card asks for.

    Raises:
        WrongForm: If it has another one.
    """
    if result.shape != shape:
        raise WrongForm(f"a tensor of shape {shape}", f"one of {tuple(result.shape)}")
    return result
