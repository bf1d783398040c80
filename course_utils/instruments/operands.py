"""Tensors among what an operator is given, and among what it returns."""

from torch import Tensor

NESTED = (list, tuple, dict)


def tensors_in(values: object) -> list[Tensor]:
    """The tensors of an operator's arguments or results, those in lists and dictionaries too."""
    if isinstance(values, Tensor):
        return [values]
    if not isinstance(values, NESTED):
        return []
    found: list[Tensor] = []
    for each in values.values() if isinstance(values, dict) else values:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, NESTED):
            found += tensors_in(each)
    return found
