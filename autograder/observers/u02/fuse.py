"""What is observed of attention weights made with few operations: results, and bytes moved."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import is_equal, num_different
from autograder.observers.tools import errors_as_data, keep, undisturbed
from course_utils.instruments.moved_bytes import MOVE_NOTHING, OVERWRITE
from course_utils.instruments.operands import tensors_in

UNSEEN = 12  # times its bytes count for a tensor that no operation has made
LEAST = 2  # times: the scores are read, and the weights written
ENOUGH = 4.5  # times the bytes of the scores: two operations, and the bias


def inputs_of(case: Case) -> tuple[Tensor, Tensor, float]:
    """Scores (b, a, s, t), a bias (s, t) that is -inf where nothing may be seen, and the scale."""
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(sum(case["shape"]))
        scores = 9 * torch.randn(case["shape"], dtype=torch.float64)
        bias = torch.randn(case["shape"][2:], dtype=scores.dtype)
    if case["is_causal"]:
        bias = bias.masked_fill(torch.ones_like(bias).triu(1).bool(), float("-inf"))
    if case["is_transposed"]:
        scores = scores.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    return scores, bias, case["scale"]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The weights, the bytes moved on the way, and the inputs afterwards."""
    inputs = inputs_of(case)
    results: list[Tensor] = []
    traffic = _Traffic(inputs[:2])
    with undisturbed(), torch.set_grad_enabled(case["is_recording"]), traffic:
        keep(results, answer(*inputs))
    scores, bias, _ = inputs
    return {
        "weights": results[0].detach(),
        "moved_bytes": traffic.num_bytes + traffic.unseen_bytes(results[0]),
        "scores": scores,
        "bias": bias,
    }


class _Traffic(TorchDispatchMode):
    """Bytes that operations read and write, as `count_bytes` counts them; lookups read all.

    That one is not there where an answer is graded: it would answer other exercises of the unit.
    A tensor that no operation has made, as of numpy or another thread, counts as much as a row of
    operations that is too long.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.num_bytes = 0
        self._large = max(each.nbytes for each in inputs)
        self._known = [each.untyped_storage() for each in inputs]
        self._places = {each.data_ptr() for each in self._known}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        for each in tensors_in((args, kwargs)):
            self.num_bytes += self.unseen_bytes(each)
        result = func(*args, **kwargs)
        self._know(tensors_in(result))
        if not func.is_view and func.overloadpacket.__name__ not in MOVE_NOTHING:
            self.num_bytes += _bytes_of(_read(func, args, kwargs)) + _bytes_of(result)
        return result

    def unseen_bytes(self, tensor: Tensor) -> int:
        """What a large tensor counts that no operation has made; it is known afterwards."""
        is_seen = tensor.untyped_storage().data_ptr() in self._places
        self._know([tensor])
        return 0 if is_seen or tensor.nbytes < self._large else UNSEEN * tensor.nbytes

    def _know(self, tensors: Sequence[Tensor]) -> None:
        """Hold storages, so that no other one takes their place in memory."""
        for each in tensors:
            storage = each.untyped_storage()
            if storage.data_ptr() not in self._places:
                self._known.append(storage)
                self._places.add(storage.data_ptr())


def _read(func: Any, args: Any, kwargs: dict[str, Any]) -> object:
    """What an operation is given and reads: all but what it only writes over."""
    outs = {each.name for each in func._schema.arguments if each.is_out}
    is_overwriting = func.overloadpacket.__name__ in OVERWRITE
    return args[is_overwriting:], {name: kwargs[name] for name in kwargs.keys() - outs}


def _bytes_of(values: object) -> int:
    """Bytes of the different tensors among some values; an element shown often counts once."""
    found = {
        (each.data_ptr(), each.shape, each.stride()): each.element_size() * _num_apart(each)
        for each in tensors_in(values)
    }
    return sum(found.values())


def _num_apart(tensor: Tensor) -> int:
    """Elements that lie apart: a stride of zero shows one of them again and again."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in sizes if stride or not size)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Results beside the right ones, and bytes in multiples of those of the scores."""
    scores, bias, _ = inputs_of(case)
    times = round(observed["moved_bytes"] / scores.nbytes, 1)
    changed = not (is_equal(observed["scores"], scores) and is_equal(observed["bias"], bias))
    return [
        Fact(
            "wrong_results",
            num_different([observed["weights"]], [right["weights"]]),
            "The weights are wrong.",
            "The weights are wrong. Does the scale multiply the scores alone, do the keys of each "
            "query add up to 1, and is the dtype unchanged?",
        ),
        Fact(
            "changed_inputs",
            int(changed),
            "Scores or bias have changed.",
            "Which of your operations writes into the tensor that it is called on?",
        ),
        Fact(
            "not_seen",
            int(times < LEAST),
            "The weights are right, and no operation of PyTorch has made them of the scores.",
            "Which operation of PyTorch reads the scores, and which one writes the weights?",
        ),
        Fact(
            "times_moved",
            right["times_moved"] if times <= ENOUGH else times,
            "the bytes moved, as a multiple of `scores` (4.5 at most)",
            "The weights are right, and more than two operations touch the scores. Which ones, and "
            "which two of them does one PyTorch function do in one?",
        ),
    ]
