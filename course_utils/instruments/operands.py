"""Tensors among what an operator is given, and among what it returns."""

from torch import Tensor


def tensors_in(values: object) -> list[Tensor]:
    """The tensors of an operator's arguments or results, those in lists and dictionaries too."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = tuple(values.values())
    if not isinstance(values, list | tuple):
        return []
    found: list[Tensor] = []
    for each in values:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, list | tuple | dict):
            found += tensors_in(each)
    return found
