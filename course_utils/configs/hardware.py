"""What can a device do, by its data sheet? Dense peaks per precision, bandwidth, memory.

Conventions: peaks are dense. The rate with 2:4 sparsity that vendors print first is twice as high
and holds only if half of the weights are zero; a method of its own returns it. Memory is in the
vendor's GB, 10**9 bytes; a device reports up to 7 % more, part of which the driver keeps.

    >>> device("H100-SXM").dense_flops_per_second("bf16")
    989400000000000
"""

from collections.abc import Mapping
from dataclasses import dataclass

from course_utils.configs.validation import find_named

TERA = 10**12
GIGA = 10**9

# The tensor-core formats for which the hardware also has a sparse rate.
SPARSE_FORMATS = ("tf32", "bf16", "fp16", "fp8", "int8")


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator by its data sheet.

    Attributes:
        name: As in `DEVICES`.
        dense_peaks: FLOP/s (for int8: OP/s) by precision, without sparsity.
        memory_bytes: Memory on the device.
        bandwidth_bytes_per_second: Of that memory.
        source: The document the numbers come from.
    """

    name: str
    dense_peaks: Mapping[str, int]
    memory_bytes: int
    bandwidth_bytes_per_second: int
    source: str

    def __repr__(self) -> str:
        """The call that returns it, without the numbers of the data sheet."""
        return f"device({self.name!r})"

    def dense_flops_per_second(self, precision: str) -> int:
        """Peak FLOP/s in a precision, without sparsity: the denominator of the MFU.

        Raises:
            ValueError: If the device does not have the precision.
        """
        if precision not in self.dense_peaks:
            known = ", ".join(self.dense_peaks)
            raise ValueError(f"{self.name} has no peak for {precision!r}; it has {known}")
        return self.dense_peaks[precision]

    def sparse_flops_per_second(self, precision: str) -> int:
        """Peak FLOP/s with 2:4 sparsity, twice the dense one; not for the MFU of dense training.

        Raises:
            ValueError: If the precision has no sparse rate.
        """
        dense = self.dense_flops_per_second(precision)
        if precision not in SPARSE_FORMATS:
            raise ValueError(f"{precision!r} has no sparse rate; {', '.join(SPARSE_FORMATS)} have")
        return 2 * dense


def _device(
    name: str, source: str, memory_gb: int, bandwidth_gb: int, **tera: float
) -> tuple[str, Device]:
    peaks = {precision: round(rate * TERA) for precision, rate in tera.items()}
    return name, Device(
        name=name,
        dense_peaks=peaks,
        memory_bytes=memory_gb * GIGA,
        bandwidth_bytes_per_second=bandwidth_gb * GIGA,
        source=source,
    )


# Dense rates of the H100 NVL, H200 and B200 are half of the sparse ones that the sheets print; the
# H200 computes like the H100 SXM, whose unrounded rates are in the white paper.
A100 = "NVIDIA A100 data sheet, June 2021"
H100 = "NVIDIA H100 architecture white paper v1.04, tables 1 and 3"
H100_PCIE = "NVIDIA H100 data sheet, SXM and PCIe edition"
H100_NVL = "NVIDIA H100 data sheet, SXM and NVL edition"
H200 = "NVIDIA H200 data sheet; rates as in the H100 white paper"
B200 = "NVIDIA Blackwell data sheet, October 2025, HGX B200; tf32 from the total of eight"
A100_PEAKS = {"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312, "int8": 624}
H100_PEAKS = {
    "fp32": 66.9,
    "tf32": 494.7,
    "bf16": 989.4,
    "fp16": 989.4,
    "fp8": 1978.9,
    "int8": 1978.9,
}
H100_PCIE_PEAKS = {"fp32": 51, "tf32": 378, "bf16": 756, "fp16": 756, "fp8": 1513, "int8": 1513}
H100_NVL_PEAKS = {
    "fp32": 60,
    "tf32": 417.5,
    "bf16": 835.5,
    "fp16": 835.5,
    "fp8": 1670.5,
    "int8": 1670.5,
}
B200_PEAKS = {
    "fp32": 75,
    "tf32": 1125,
    "bf16": 2250,
    "fp16": 2250,
    "fp8": 4500,
    "int8": 4500,
}

DEVICES = dict(
    (
        _device("A100-40", A100, 40, 1555, **A100_PEAKS),
        _device("A100-80", A100, 80, 2039, **A100_PEAKS),
        _device("H100-SXM", H100, 80, 3350, **H100_PEAKS),
        _device("H100-PCIe", H100_PCIE, 80, 2000, **H100_PCIE_PEAKS),
        _device("H100-NVL", H100_NVL, 94, 3900, **H100_NVL_PEAKS),
        _device("H200", H200, 141, 4800, **H100_PEAKS),
        _device("B200", B200, 180, 7700, **B200_PEAKS),
    )
)


def device(name: str) -> Device:
    """Look up a device by name.

    Raises:
        ValueError: If there is none; the message lists similar names.
    """
    return find_named("device", name, DEVICES)
