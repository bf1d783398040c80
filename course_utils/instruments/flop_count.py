"""How many FLOPs does this call really execute, forward and backward?

PyTorch's counter sees every matrix product that runs, with its shapes, and counts a multiply and an
add as two operations. It observes which products run, forward and backward, and assumes nothing. On
the meta device nothing is computed or allocated, so the largest model is counted in a moment.

    >>> a = torch.empty(2, 3, device="meta", requires_grad=True)
    >>> b = torch.empty(3, 5, device="meta", requires_grad=True)
    >>> count_flops(lambda: a @ b)
    FlopCount(forward_flops=60, backward_flops=120)
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    FlopCounterMode,
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
    shape_wrapper,
)

from course_utils.instruments.exclusive_use import exclusive

aten = torch.ops.aten

# Flash attention on the CPU is missing from torch 2.13's own table and would count as zero. The
# rules see shapes only: causal attention counts in full; the backward pass recomputes the scores.
FLASH_ON_CPU = {
    aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(
        q, k, v
    ),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda grad, q, k, v, *_, **__: sdpa_backward_flop_count(grad, q, k, v)
    ),
}

RULES: Mapping[Any, Callable[..., int]] = {
    **flop_registry,
    **{operation: shape_wrapper(rule) for operation, rule in FLASH_ON_CPU.items()},
}

# Words in the names of operations that multiply and add. The counter would silently skip such an
# operation if it has no rule for it.
MULTIPLIES = {
    "mm",
    "addmm",
    "bmm",
    "addbmm",
    "baddbmm",
    "mv",
    "addmv",
    "dot",
    "vdot",
    "addr",
    "linear",
    "matmul",
    "attention",
    "encoder",
    "convolution",
    "trilinear",
    "cdist",
    "rnn",
    "lstm",
    "gru",
}
ADVICE = {
    "mv": "write the vector as a matrix with one column",
    "addmv": "write the vector as a matrix with one column",
    "dot": "write it as a product of a row and a column",
    "vdot": "write it as a product of a row and a column",
    "_native_multi_head_attention": "use the training mode, or write the attention out",
    "_transformer_encoder_layer_fwd": "use the training mode, or write the layer out",
}


class FlopCount(NamedTuple):
    """FLOPs of one call: its forward pass and the backward pass from its result."""

    forward_flops: int
    backward_flops: int


class _RefuseUncounted(TorchDispatchMode):
    """Raises at an operation that the counter would skip."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        require_countable(func)
        return func(*args, **(kwargs or {}))


@functools.cache
def is_uncounted_product(operation: Any) -> bool:
    """Whether an operation multiplies and adds but has no rule to count it."""
    packet = operation.overloadpacket
    return packet not in RULES and not MULTIPLIES.isdisjoint(packet.__name__.split("_"))


def require_countable(operation: Any) -> None:
    """Refuse an operation that the counter would skip.

    Raises:
        ValueError: If it multiplies and adds but has no rule to count it.
    """
    if is_uncounted_product(operation):
        name = operation.overloadpacket.__name__
        raise ValueError(
            f"the counter of matrix products does not know `{name}`, which it would take for "
            f"nothing: {ADVICE.get(name, 'write it with @')}"
        )


def operation_flops(
    operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> int:
    """FLOPs of one operation that ran, from its shapes; zero unless it is a matrix product.

    Raises:
        ValueError: If it multiplies and adds but has no rule to count it.
    """
    rule, wants_shapes = _rule(operation)
    if rule is None:
        return 0
    if not wants_shapes:
        return rule(*args, **kwargs, out_val=result)
    named = {name: _shape(each) for name, each in kwargs.items()}
    return rule(*map(_shape, args), **named, out_shape=_shape(result))


@functools.cache
def _rule(operation: Any) -> tuple[Callable[..., int] | None, bool]:
    """The rule of an operation, and whether it wants shapes for tensors.

    Those come in torch's `shape_wrapper`, which takes twenty times as long as the rule in it.
    """
    require_countable(operation)
    rule = RULES.get(operation.overloadpacket)
    inner = getattr(rule, "__wrapped__", None)
    return (rule, False) if inner is None else (inner, True)


def _shape(value: Any) -> Any:
    """The shape of a tensor, or those of a tuple's tensors; anything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.shape
    return tuple(map(_shape, value)) if isinstance(value, tuple) else value


@exclusive
def count_flops(call: Callable[[], torch.Tensor]) -> FlopCount:
    """FLOPs of the matrix products that ``call()`` executes, and of its backward pass.

    The backward pass starts from a gradient of ones, at no cost, and runs only if the result
    requires a gradient. It leaves gradients on the leaf tensors. Norms, activations, softmax and
    lookups count as zero; causal attention counts in full.

    Args:
        call: Takes nothing and returns one tensor.

    Returns:
        ``forward_flops`` and ``backward_flops``, whole numbers.

    Raises:
        ValueError: If an operation multiplies and adds but cannot be counted, or if another
            instrument is running.
        TypeError: If the call does not return a tensor.
    """
    forward, result = _flops_and_result(call)
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"count_flops wants a call that returns one tensor, got {type(result)}")
    if not result.requires_grad:
        return FlopCount(forward, 0)
    backward, _ = _flops_and_result(lambda: result.backward(torch.ones_like(result)))
    return FlopCount(forward, backward)


def _flops_and_result(call: Callable[[], Any]) -> tuple[int, Any]:
    counter = FlopCounterMode(display=False, custom_mapping=FLASH_ON_CPU)
    with _RefuseUncounted(), counter:  # type: ignore[no-untyped-call]
        result = call()
    return counter.get_total_flops(), result
