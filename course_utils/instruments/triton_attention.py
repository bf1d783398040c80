"""Is this Triton kernel the attention that a program on the machine computes?

Triton compiles such Python for a GPU; its interpreter runs it on the CPU. A kernel takes pointers,
and each of its programs makes one tile of queries:

    def flash_kernel(q, k, v, out, lse, num_queries, num_keys, scale,
                     head_dim: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):

It runs in a process of its own: Triton decides at its import whether to interpret, and a wrong
pointer may end the process. Sides of tiles are powers of two. Of 16-bit formats only fp16 is right:
the interpreter multiplies the bit patterns of bf16 and says nothing.

Triton is no requirement of the course: it needs Linux, and 1 GB on disk.
"""

import inspect
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_utils.instruments.two_level_memory import TwoLevelMemory

INSTALL = (
    "Triton is not installed: on Linux, run `%pip install triton` in a cell (a download of 290 MB, "
    "1 GB on disk), then run this cell again."
)
SCRIPT = """
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"  # before the import
import torch
import triton
import triton.language as tl

@triton.jit
{kernel}
cases = torch.load(sys.argv[1])
for arguments in cases:
    num_queries, block_q = arguments[5], arguments[9]
    {name}[(triton.cdiv(num_queries, block_q),)](*arguments)
torch.save(cases, sys.argv[1])
"""
LIMIT_SECONDS = 120
BLOCK_Q, BLOCK_K, HEAD_DIM = 16, 32, 16
UNWRITTEN, PADDING = 7.5, BLOCK_K * HEAD_DIM  # a tile more than an array has
DIGITS = {torch.float32: 1e-4, torch.float16: 1e-2}


class _Language:
    """Stands for `triton.language` where a kernel is only defined."""

    constexpr = "constexpr"


tl: Any = _Language()


class Case(NamedTuple):
    """Sizes, format, and by how much queries are multiplied, so that scores are far from zero."""

    num_queries: int
    num_keys: int
    dtype: torch.dtype
    gain: float

    def __str__(self) -> str:
        """As a student reads it."""
        width = 8 * self.dtype.itemsize
        return f"{self.num_queries} queries, {self.num_keys} keys, fp{width}"


CASES = (
    Case(32, 64, torch.float32, 1),
    Case(37, 77, torch.float32, 1),
    Case(37, 77, torch.float32, 300),
    Case(37, 77, torch.float16, 1),
)


def is_installed() -> bool:
    """Whether Triton can be imported."""
    return find_spec("triton") is not None


def compare_kernel(kernel: Callable[..., None], program: Callable[..., None]) -> list[str]:
    """How a kernel's results differ from those of a program on the machine, a line for each case.

    Args:
        kernel: As above, not decorated.
        program: As `course_utils.reference.tiled_attention.flash_forward`.

    Returns:
        The error alone, if the kernel raises.
    """
    inputs = [_inputs(case) for case in CASES]
    try:
        buffers = _interpreted(kernel, inputs)
    except ChildProcessError as error:
        return [str(error)]
    return [
        f"{case}: {_difference(of_case, _on_the_machine(program, *qkv), DIGITS[case.dtype])}"
        for case, qkv, of_case in zip(CASES, inputs, buffers, strict=True)
    ]


def _inputs(case: Case) -> list[Tensor]:
    generator = torch.Generator().manual_seed(case.num_keys)
    rows = (case.num_queries, case.num_keys, case.num_keys)
    q, k, v = (torch.randn(each, HEAD_DIM, generator=generator) for each in rows)
    return [each.to(case.dtype) for each in (case.gain * q, k, v)]


def _on_the_machine(
    program: Callable[..., None], q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """Result and log-sum-exp in float64."""
    machine = TwoLevelMemory()
    tensors = [*(each.double() for each in (q, k, v)), q.double(), q[:, 0].double()]
    names = ("q", "k", "v", "out", "lse")
    arrays = [machine.slow(*pair) for pair in zip(tensors, names, strict=True)]
    program(machine, arrays, BLOCK_Q, BLOCK_K)
    return tensors[3], tensors[4]


def _interpreted(kernel: Callable[..., None], inputs: list[list[Tensor]]) -> list[list[Tensor]]:
    """What a kernel leaves in its buffers for out and lse, for each q, k and v.

    Raises:
        ChildProcessError: If the kernel raises, or does not return.
    """
    source = textwrap.dedent(inspect.getsource(kernel))
    with tempfile.TemporaryDirectory() as folder:
        script, data = Path(folder, "kernel.py"), Path(folder, "data.pt")
        script.write_text(SCRIPT.format(kernel=source, name=kernel.__name__), encoding="utf-8")
        torch.save([_arguments(*qkv) for qkv in inputs], data)
        _run(script, data)
        return [each[3:5] for each in torch.load(data)]


def _arguments(q: Tensor, k: Tensor, v: Tensor) -> list[Any]:
    """Those of a kernel. Behind q, k and v lies nan, so that it shows if more of them is used."""
    given = [
        torch.cat([each.flatten(), each.new_full((PADDING,), torch.nan)]) for each in (q, k, v)
    ]
    buffers = [
        torch.full((size + PADDING,), UNWRITTEN, dtype=dtype)
        for size, dtype in ((q.numel(), q.dtype), (len(q), torch.float32))
    ]
    return [*given, *buffers, len(q), len(k), HEAD_DIM**-0.5, HEAD_DIM, BLOCK_Q, BLOCK_K]


def _run(script: Path, data: Path) -> None:
    command = [sys.executable, str(script), str(data)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ChildProcessError(f"stopped after {LIMIT_SECONDS} seconds") from None
    if done.returncode:
        if "NotImplementedError" in done.stderr:
            raise ChildProcessError("not written yet")
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise ChildProcessError(lines[-1] if lines else f"ended with code {done.returncode}")


def _difference(buffers: list[Tensor], right: tuple[Tensor, Tensor], digits: float) -> str:
    """What of the buffers is not as it should be, the first of it."""
    for name, buffer, wanted in zip(("out", "lse"), buffers, right, strict=True):
        ours = buffer[: wanted.numel()].view_as(wanted).double()
        is_close = torch.isclose(ours, wanted, rtol=digits, atol=digits).view(len(wanted), -1)
        if num_wrong := int((~is_close.all(1)).sum()):
            return f"{num_wrong} of {len(wanted)} rows of {name} differ from your program's"
        if bool((buffer[wanted.numel() :] != UNWRITTEN).any()):
            return f"numbers were stored beyond the end of {name}: which rows does the mask allow?"
    return "right"
