"""Triton kernels beside a program on the machine, by Triton's interpreter where there is one."""

import inspect
import linecache

import pytest

from course_utils.instruments import triton_attention
from course_utils.instruments.triton_attention import CASES, compare_kernel, is_installed, tl
from course_utils.reference.tiled_attention import flash_forward

needs_triton = pytest.mark.skipif(not is_installed(), reason="Triton is not installed")


def flash_kernel(  # noqa: PLR0913, PLR0917  all that a kernel is given
    q,
    k,
    v,
    out,
    lse,
    num_queries,
    num_keys,
    scale,
    head_dim: tl.constexpr,
    block_q: tl.constexpr,
    block_k: tl.constexpr,
):
    rows = tl.program_id(0) * block_q + tl.arange(0, block_q)
    columns = tl.arange(0, head_dim)
    is_query = rows < num_queries
    places = rows[:, None] * head_dim + columns
    queries = tl.load(q + places, mask=is_query[:, None], other=0.0)
    maximum = tl.full((block_q,), float("-inf"), tl.float32)
    total = tl.zeros((block_q,), tl.float32)
    summed = tl.zeros((block_q, head_dim), tl.float32)
    for start in range(0, num_keys, block_k):
        there = start + tl.arange(0, block_k)
        is_key = there < num_keys
        of_keys = there[:, None] * head_dim + columns
        keys = tl.load(k + of_keys, mask=is_key[:, None], other=0.0)
        values = tl.load(v + of_keys, mask=is_key[:, None], other=0.0)
        scores = tl.where(is_key, tl.dot(queries, tl.trans(keys)) * scale, float("-inf"))
        higher = tl.maximum(maximum, tl.max(scores, 1))
        weights, shrink = tl.exp(scores - higher[:, None]), tl.exp(maximum - higher)
        total = total * shrink + tl.sum(weights, 1)
        summed = summed * shrink[:, None] + tl.dot(weights.to(values.dtype), values)
        maximum = higher
    tl.store(out + places, summed / total[:, None], mask=is_query[:, None])
    tl.store(lse + rows, maximum + tl.log(total), mask=is_query)


def edited(old, new):
    """The kernel with one piece written otherwise."""
    source = inspect.getsource(flash_kernel)
    assert source.count(old) == 1
    source = source.replace(old, new)
    filename = f"<kernel {hash(source)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = {"tl": tl}
    exec(compile(source, filename, "exec"), namespace)
    return namespace["flash_kernel"]


@needs_triton
def test_a_right_kernel_is_right_in_every_case():
    assert compare_kernel(flash_kernel, flash_forward) == [f"{case}: right" for case in CASES]


@needs_triton
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("summed * shrink[:, None]", "summed", "rows of out differ"),
        ("tl.where(is_key, ", "tl.where(there >= 0, ", "rows of out differ"),
        ("v + of_keys, mask=is_key[:, None], other=0.0", "v + of_keys", "rows of out differ"),
        ("maximum + tl.log(total)", "tl.log(total)", "rows of lse differ"),
        ("total[:, None], mask=is_query[:, None]", "total[:, None]", "beyond the end of out"),
        ("tl.log(total), mask=is_query", "tl.log(total)", "beyond the end of lse"),
        ("tl.arange(0, block_k)", "tl.arange(0, 3 * block_k)", "power of 2"),
        ("tl.program_id(0)", "tl.program_id(0) + no_such_name", "no_such_name"),
    ],
)
def test_a_wrong_kernel_is_told_what_is_wrong(old, new, words):
    assert words in " ".join(compare_kernel(edited(old, new), flash_forward))


@needs_triton
def test_a_kernel_that_is_not_written_is_not_called_wrong():
    kernel = edited("    rows = tl", "    raise NotImplementedError\n    rows = tl")
    assert compare_kernel(kernel, flash_forward) == ["not written yet"]


def test_what_to_install_is_one_sentence():
    assert "pip install triton" in triton_attention.INSTALL
    assert triton_attention.INSTALL.count(". ") == 0


def test_a_kernel_can_be_defined_without_triton():
    assert flash_kernel.__annotations__["block_q"] == "constexpr"
