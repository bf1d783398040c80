"""Into how many bits of exponent and mantissa is a floating-point number divided?

>>> FORMATS["bf16"].num_bits
16

Sources: IEEE 754-2019, table 3.5 (fp16, fp32); Micikevicius et al. 2022, FP8 Formats for Deep
Learning, table 1; NVIDIA A100 Tensor Core GPU Architecture (tf32, bf16).
"""

from dataclasses import dataclass

from course_utils.configs.validation import require_positive


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """One bit of sign, and then the exponent and the mantissa.

    Attributes:
        num_exponent_bits: They say the power of two.
        num_mantissa_bits: They say where between two powers of two.
        has_infinity: Whether the largest exponent is kept for infinity and NaN, as IEEE 754 wants
            it; otherwise a single pattern of each sign is NaN, and none is infinity.
    """

    num_exponent_bits: int
    num_mantissa_bits: int
    has_infinity: bool = True

    def __post_init__(self) -> None:
        """Refuse widths that make no sense."""
        widths = {name: size for name, size in vars(self).items() if name.startswith("num_")}
        require_positive("NumberFormat", **widths)

    @property
    def num_bits(self) -> int:
        """Bits of one number, its sign among them."""
        return 1 + self.num_exponent_bits + self.num_mantissa_bits


FORMATS = {
    "fp32": NumberFormat(num_exponent_bits=8, num_mantissa_bits=23),
    "tf32": NumberFormat(num_exponent_bits=8, num_mantissa_bits=10),
    "bf16": NumberFormat(num_exponent_bits=8, num_mantissa_bits=7),
    "fp16": NumberFormat(num_exponent_bits=5, num_mantissa_bits=10),
    "fp8-e5m2": NumberFormat(num_exponent_bits=5, num_mantissa_bits=2),
    "fp8-e4m3": NumberFormat(num_exponent_bits=4, num_mantissa_bits=3, has_infinity=False),
}
