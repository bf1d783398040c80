"""How many bits of a floating-point number are exponent, and how many mantissa?

>>> FORMATS["bf16"].num_bits
16

Sources: IEEE 754-2019, table 3.5 (fp16, fp32); Micikevicius et al. 2022, FP8 Formats for Deep
Learning, table 1; NVIDIA A100 Tensor Core GPU Architecture (tf32, bf16).
"""

from dataclasses import dataclass

from course_utils.configs.validation import require_positive


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """A floating-point format: one sign bit, then exponent, then mantissa.

    Attributes:
        num_exponent_bits: Bits that choose the power of two.
        num_mantissa_bits: Bits that choose the place between two powers of two.
        has_infinity: Whether the largest exponent is reserved for infinity and NaN, as in IEEE 754;
            otherwise one pattern of each sign is NaN, and none is infinity.
    """

    num_exponent_bits: int
    num_mantissa_bits: int
    has_infinity: bool = True

    def __post_init__(self) -> None:
        """Reject widths that make no sense."""
        widths = {name: size for name, size in vars(self).items() if name.startswith("num_")}
        require_positive("NumberFormat", **widths)

    @property
    def num_bits(self) -> int:
        """Bits of one number, sign included."""
        return 1 + self.num_exponent_bits + self.num_mantissa_bits


FORMATS = {
    "fp32": NumberFormat(num_exponent_bits=8, num_mantissa_bits=23),
    "tf32": NumberFormat(num_exponent_bits=8, num_mantissa_bits=10),
    "bf16": NumberFormat(num_exponent_bits=8, num_mantissa_bits=7),
    "fp16": NumberFormat(num_exponent_bits=5, num_mantissa_bits=10),
    "fp8-e5m2": NumberFormat(num_exponent_bits=5, num_mantissa_bits=2),
    "fp8-e4m3": NumberFormat(num_exponent_bits=4, num_mantissa_bits=3, has_infinity=False),
}
BF16_BYTES, FP32_BYTES = (FORMATS[name].num_bits // 8 for name in ("bf16", "fp32"))
