"""How many bytes does each kind of number take in training?

>>> precision("bf16").weight_bytes
2

Sources: Micikevicius et al. 2018, Mixed Precision Training; Rajbhandari et al. 2020, ZeRO,
section 3.1; the lectures' tables (E12, S11).
"""

from dataclasses import dataclass

from course_utils.configs.validation import find_named, require_not_negative, require_positive


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Bytes of one number of each kind, with Adam.

    Attributes:
        activation_bytes: Of an activation.
        weight_bytes: Of a weight as the matrix products use it.
        gradient_bytes: Of a weight's gradient, all copies together.
        master_weight_bytes: Of the copy of a weight that the optimizer updates; zero without one.
        moment_bytes: Of Adam's two moments of a weight together.
    """

    activation_bytes: int
    weight_bytes: int
    gradient_bytes: int
    master_weight_bytes: int
    moment_bytes: int

    def __post_init__(self) -> None:
        """Reject sizes that make no sense."""
        sizes = dict(vars(self))
        require_not_negative("Precision", master_weight_bytes=sizes.pop("master_weight_bytes"))
        require_positive("Precision", **sizes)


def _precision(activation: int, weight: int, gradient: int, master: int) -> Precision:
    return Precision(
        activation_bytes=activation,
        weight_bytes=weight,
        gradient_bytes=gradient,
        master_weight_bytes=master,
        moment_bytes=4 + 4,
    )


PRECISIONS = {
    "fp32": _precision(4, 4, 4, 0),
    "bf16": _precision(2, 2, 2, 4),
    "bf16-fp32-gradients": _precision(2, 2, 4, 4),
    "bf16-both-gradients": _precision(2, 2, 2 + 4, 4),  # fp32 sums of bf16 gradients, both kept
}


def precision(name: str) -> Precision:
    """Look up a precision by name.

    Raises:
        ValueError: If there is none; the message lists similar names.
    """
    return find_named("precision", name, PRECISIONS)
