"""Check of the student's counter of saved bytes, on programs that it has never seen."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.instruments import count_saved_bytes

Program = tuple[Callable[[], Tensor], list[Tensor]]


def _linear(x: Tensor, width: int) -> Program:
    layer = nn.Linear(x.shape[1], width, dtype=x.dtype)
    return lambda: layer(x), list(layer.parameters())


def _two_readers(x: Tensor, width: int) -> Program:
    first, second = (nn.Linear(x.shape[1], width, dtype=x.dtype) for _ in range(2))
    return lambda: first(x) + second(x), [*first.parameters(), *second.parameters()]


def _transposed_weight(x: Tensor, width: int) -> Program:
    weight = nn.Parameter(torch.ones(x.shape[1], width, dtype=x.dtype))
    return lambda: torch.relu(x.detach() @ weight), [weight]


def _chain(x: Tensor, width: int) -> Program:
    layers = nn.Sequential(
        nn.Linear(x.shape[1], width, dtype=x.dtype),
        nn.GELU(),
        nn.Linear(width, x.shape[1], dtype=x.dtype),
        nn.Softmax(-1),
    )
    return lambda: layers(x), list(layers.parameters())


def _view(x: Tensor, width: int) -> Program:
    large = torch.ones(x.shape[0], x.shape[1] + width, dtype=x.dtype, requires_grad=True)
    return lambda: torch.square((large * 1)[:, : x.shape[1]]), []


def _two_views(x: Tensor, width: int) -> Program:
    def call() -> Tensor:
        left, right = (x * 1).chunk(2, dim=1)
        return left * right

    return call, []


def _no_gradient(x: Tensor, width: int) -> Program:
    return lambda: x.detach().exp().square(), []


PROGRAMS: dict[str, Callable[[Tensor, int], Program]] = {
    "one linear layer": _linear,
    "two layers read one input": _two_readers,
    "a weight and its transpose": _transposed_weight,
    "a chain of layers": _chain,
    "a part of a large tensor": _view,
    "two halves of one tensor": _two_views,
    "no gradient wanted": _no_gradient,
}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def microscope_cases(seed: int) -> list[Case]:
    """Every program, in bf16 and fp32, on unequal sizes."""
    rng = random.Random(seed)
    subtle = ["two layers read one input", "a chain of layers", "two halves of one tensor"]
    return [
        {
            "program": program,
            "rows": rng.randint(2, 9),
            "columns": 2 * rng.randint(2, 9),
            "width": rng.randrange(3, 19, 2),
            "dtype": dtype,
        }
        for dtype in DTYPES
        for program in [*PROGRAMS, *subtle]
    ]


def program_of(program: str, rows: int, columns: int, width: int, dtype: str) -> Program:
    """The call that a case names, and the parameters to leave out."""
    x = torch.ones(rows, columns, dtype=DTYPES[dtype], requires_grad=True)
    return PROGRAMS[program](x, width)


def observe_saved_bytes(answer: Any, case: Case) -> object:
    """What the student's counter returns for a program."""
    call, parameters = program_of(**case)
    return answer(call, parameters)


def measured_saved_bytes(**case: Any) -> int:
    """What the course's instrument counts for the same program."""
    call, parameters = program_of(**case)
    return count_saved_bytes(call, *parameters).total_bytes


def saved_bytes(call: Callable[[], Tensor], parameters: list[Tensor]) -> int:
    """The course's own answer, under the name that the exercise asks for."""
    return count_saved_bytes(call, *parameters).total_bytes


def _wrong(
    size_of: Callable[[Tensor], int] = lambda tensor: tensor.untyped_storage().nbytes(),
    *,
    once: bool = True,
    leaves_parameters_out: bool = True,
) -> Callable[..., int]:
    """A wrong counter: other sizes, storages counted more than once, or parameters counted."""

    def formula(*case: Any) -> int:
        call, parameters = program_of(*case)
        known = {_key(each) for each in parameters} if leaves_parameters_out else set()
        sizes: list[int] = []
        kept: list[Tensor] = []

        def pack(tensor: Tensor) -> Tensor:
            if _key(tensor) not in known:
                sizes.append(size_of(tensor))
            kept.append(tensor.detach())  # or its address could be used again
            if once:
                known.add(_key(tensor))
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            call()
        return sum(sizes)

    return formula


def _key(tensor: Tensor) -> int:
    """The address of the storage object, equal for all views of one storage."""
    key: int = tensor.untyped_storage()._cdata
    return key


CHECK = Check(
    cases=microscope_cases,
    reference=saved_bytes,
    observe=observe_saved_bytes,
    judge=EqualTo(
        measured_saved_bytes,
        Mistake(
            "You count a storage each time that it is kept. When two operations keep the same "
            "tensor, how often does it lie in memory?",
            _wrong(once=False),
        ),
        Mistake(
            "The weights are in your sum. Would they go away if nobody wanted a gradient?",
            _wrong(leaves_parameters_out=False),
        ),
        Mistake(
            "You count what a view shows. What stays in memory as long as one view of it is kept?",
            _wrong(lambda tensor: tensor.numel() * tensor.element_size()),
        ),
        Mistake(
            "You count what each view shows, each time. Which of them lie in the same storage?",
            _wrong(lambda tensor: tensor.numel() * tensor.element_size(), once=False),
        ),
        Mistake(
            "You count numbers. How many bytes has each of them?",
            _wrong(lambda tensor: tensor.numel(), once=False),
        ),
        Mistake(
            "You take four bytes for every number. Which method of a tensor knows better?",
            _wrong(lambda tensor: 4 * tensor.numel(), once=False),
        ),
        Mistake(
            "You count tensors. How large is each of them?",
            _wrong(lambda tensor: 1, once=False),
        ),
    ),
)
