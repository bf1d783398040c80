"""The objects that a case's plain data stands for, and a case in words for a student."""

from collections.abc import Callable
from typing import Any

from course_utils.configs import (
    Costs,
    Experts,
    LatentAttention,
    Machine,
    ModelConfig,
    Plan,
    device,
)
from course_utils.literals import literal

PARTS: dict[str, Any] = {"latent_attention": LatentAttention, "experts": Experts}


def model_of(sizes: dict[str, Any]) -> ModelConfig:
    """The model that a case names by its plain sizes."""
    fields = {name: PARTS[name](**v) if name in PARTS else v for name, v in sizes.items()}
    return ModelConfig(**fields)


# How to make an object from the plain data under these names.
OBJECTS: dict[str, Callable[[Any], Any]] = {
    "model": model_of,
    "hardware": device,
    "machine": lambda sizes: Machine(**sizes),
    "plan": lambda sizes: Plan(**sizes),
    "costs": Costs,
}


class ArgumentChanged(Exception):
    """An answer changed what was passed to it; the message is the argument's name."""


def arguments(case: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the student's function, with objects where the case has plain data."""
    return {name: OBJECTS[name](v) if name in OBJECTS else v for name, v in case.items()}


def case_in_words(case: dict[str, Any]) -> str:
    """A case as a student would type it: ``rows=2, inner=1_000``, ``model=ModelConfig(...)``."""
    return ", ".join(f"{name}={literal(value)}" for name, value in arguments(case).items())
