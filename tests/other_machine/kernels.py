"""PyTorch's CPU kernels as another processor might have them: what is not exact differs a little.

Sums run over their terms in the opposite order, and then each result that had to be rounded moves
by one unit in the last place, up, down or not at all: a function of its own bits and of a seed, so
that the same operation on the same numbers gives the same result twice. A result that is exact in
its dtype stays as it is on every machine.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map_only

# The last dimension of the first operand and the one before the last of the second are summed over.
PRODUCTS = {"mm": 0, "bmm": 0, "dot": 0, "vdot": 0, "mv": 0, "addmm": 1, "addmv": 1, "baddbmm": 1}
SUMS = ("sum", "sum.dim_IntList", "mean", "mean.dim")
ELEMENTWISE = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "erf",
    "rsqrt",
    "silu",
    "gelu",
)
OTHERS = (
    "_softmax",
    "_log_softmax",
    "logsumexp",
    "linalg_vector_norm",
    "var.correction",
    "std.correction",
    "native_layer_norm",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_softmax_backward_data",
    "_log_softmax_backward_data",
    "native_layer_norm_backward",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "silu_backward",
    "gelu_backward",
    "tanh_backward",
    "sigmoid_backward",
    "softplus",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "cumsum",
)
BITS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16}
# A result in float64 is taken for exact if so many of its last bits are zero.
EXACT_BITS = 9
ODD = 0x9E3779B1
CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
Kernel = Callable[..., Any]


LIBRARY = torch.library.Library("aten", "IMPL")


def install(seed: int) -> None:
    """Replace the kernels for the whole process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels are overridden
        for name, kernel in _kernels(seed):
            LIBRARY.impl(name, kernel, "CPU")


def _kernels(seed: int) -> Iterator[tuple[str, Kernel]]:
    """Each operator, and what runs in its place."""
    for name in itertools.chain(PRODUCTS, SUMS, ELEMENTWISE, OTHERS):
        original = torch.library.get_kernel(f"aten::{name}", "CPU")
        yield name, _nudged(original, _reordering(name), seed)
    for name in ELEMENTWISE:
        original = torch.library.get_kernel(f"aten::{name}_", "CPU")
        yield f"{name}_", _nudged_in_place(original, seed)
    yield "bernoulli_.float", _draw_masks


def _nudged(original: Any, reorder: Callable[..., Any], seed: int) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        ordered = reorder(args)
        if ordered is None:  # one term alone, which every processor rounds to the nearest number
            return original.call_boxed(CPU, *args, **kwargs)
        results = original.call_boxed(CPU, *ordered, **kwargs)
        flat = [each for each in tree_flatten(results)[0] if isinstance(each, Tensor)]
        if any(each.dtype in BITS for each in flat):
            exact = _in_float64(original, ordered, kwargs)
            for each, other in zip(flat, exact or [None] * len(flat), strict=True):
                nudge(each, other, seed)
        return results

    return kernel


def _nudged_in_place(original: Any, seed: int) -> Kernel:
    def kernel(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        original.call_boxed(CPU, tensor, *args, **kwargs)
        nudge(tensor, None, seed)
        return tensor

    return kernel


def _draw_masks(tensor: Tensor, p: float = 0.5, *, generator: Any = None) -> Tensor:
    """Masks of dropout as PyTorch draws them where it has no MKL."""
    return tensor.copy_(torch.rand(tensor.shape, generator=generator, dtype=torch.float64) < p)


def _in_float64(original: Any, args: Any, kwargs: Any) -> list[Tensor] | None:
    """The same with more digits; None where these are float64's already, or it cannot be had."""
    floats = [each for each in args if isinstance(each, Tensor) and each.is_floating_point()]
    if not floats or any(each.dtype == torch.float64 for each in floats):
        return None
    wide = tree_map_only(Tensor, lambda t: t.double() if t.is_floating_point() else t, args)
    try:
        results = original.call_boxed(CPU, *wide, **kwargs)
    except RuntimeError:
        return None
    return [each for each in tree_flatten(results)[0] if isinstance(each, Tensor)]


def nudge(result: Tensor, exact: Tensor | None, seed: int) -> None:
    """Move each rounded number by one unit in its last place, up, down or not at all."""
    if result.dtype not in BITS or result.numel() == 0:
        return
    bits = result.contiguous().view(BITS[result.dtype])
    if exact is not None and exact.dtype == torch.float64:
        is_exact = exact == result.double()
    else:
        is_exact = (result.double().contiguous().view(torch.int64) & (2**EXACT_BITS - 1)) == 0
    moved = (((bits.long() + seed) * ODD) >> 16) % 3 - 1
    is_normal = result.isfinite() & (result.abs() >= torch.finfo(result.dtype).tiny)
    moved = torch.where(is_normal & ~is_exact, moved, 0)
    result.copy_((bits + moved.to(bits.dtype)).view(result.dtype))


def _reordering(name: str) -> Callable[..., Any]:
    """From the arguments of an operator to those in another order; to None of one term alone."""
    if name in PRODUCTS:
        return _backwards_product(PRODUCTS[name])
    if name in SUMS:
        return _backwards
    return _unless_it_is_one if name == "logsumexp" else _as_it_is


def _as_it_is(args: Any) -> Any:
    return args


def _unless_it_is_one(args: Any) -> Any:
    """The largest term is taken out and its exponential is one, so a single term is itself."""
    tensor, dims, *_ = args
    return None if all(tensor.shape[dim] == 1 for dim in dims) else args


def _backwards(args: Any) -> Any:
    """The terms of a sum in the opposite order."""
    tensor, *others = args
    return (tensor.flip(tuple(range(tensor.dim()))) if _is_whole_sum(others) else tensor, *others)


def _is_whole_sum(others: Any) -> bool:
    """Whether all terms are summed up, so that flipping them all changes only the order."""
    return not others or others[0] in (None, [])


def _backwards_product(first: int) -> Callable[..., Any]:
    def reorder(args: Any) -> Any:
        a, b = args[first : first + 2]
        if a.shape[-1] == 1 and not first:
            return None
        inner = -2 if b.dim() > 1 else -1
        return (*args[:first], a.flip(-1), b.flip(inner), *args[first + 2 :])

    return reorder
