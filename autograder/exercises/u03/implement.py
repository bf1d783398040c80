"""Checks of code that keeps less: the right numbers, the right gradients, and the right bytes."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.instruments import count_saved_bytes
from course_utils.reference.attention import attend
from course_utils.reference.fused import rotate, swiglu

FLOAT64_BYTES = 8
# The same sums in another order: a few roundings of 1.1e-16 for numbers near one.
ROUNDING = 1e-9

Function = Callable[..., Tensor]


def wrong_numbers(answer: Function, oracle: Function, inputs: list[Tensor]) -> dict[str, int]:
    """How many entries of result and gradients differ from those of an oracle, in float64."""
    ours, theirs = (_result_and_gradients(each, inputs) for each in (answer, oracle))
    differ = [_num_different(a, b) for a, b in zip(ours, theirs, strict=True)]
    return {"wrong_results": differ[0], "wrong_gradients": sum(differ[1:])}


def upstream(result: Tensor) -> Tensor:
    """A gradient from behind that is different for every number, and nowhere one."""
    return torch.linspace(1.5, 2.5, result.numel(), dtype=result.dtype).view_as(result)


def _result_and_gradients(function: Function, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    result = function(*leaves)
    result.backward(upstream(result))
    return [result.detach(), *(_gradient(leaf) for leaf in leaves)]


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def _num_different(ours: Tensor, theirs: Tensor) -> int:
    if ours.shape != theirs.shape:
        return theirs.numel()
    return int((~torch.isclose(ours, theirs, rtol=ROUNDING, atol=ROUNDING)).sum())


def kept(call: Function, inputs: list[Tensor], *owners: nn.Module) -> dict[str, int]:
    """What a call keeps for backward, and what lives on where autograd does not see it."""
    made = [each.detach().clone().requires_grad_() * 1 for each in inputs]
    saved = count_saved_bytes(lambda: call(*made), *owners)
    return {"saved_bytes": saved.total_bytes, "unseen_bytes": saved.unseen_bytes}


def _random(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def gate_cases(seed: int) -> list[Case]:
    """One row and many, odd widths."""
    rng = random.Random(seed)
    sizes = [(1, 3), (2, 5)]
    sizes += [(rng.randint(1, 3), rng.randrange(3, 99, 2)) for _ in range(9)]
    sizes += [(rng.randint(4, 40), rng.randint(2, 40)) for _ in range(9)]
    return [{"rows": rows, "ffn_size": ffn_size} for rows, ffn_size in sizes]


def _gate_inputs(rows: int, ffn_size: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(rows * ffn_size)
    return [_random(generator, rows, ffn_size) for _ in range(2)]


def plain_gate(g: Tensor, u: Tensor) -> Tensor:
    """The gate as autograd sees it."""
    return F.silu(g) * u


def observe_gate(answer: Any, case: Case) -> object:
    """Numbers, gradients and bytes of the student's gate."""
    inputs = _gate_inputs(**case)
    return wrong_numbers(answer, plain_gate, inputs) | kept(answer, inputs)


def wanted_of_gate(rows: int, ffn_size: int) -> dict[str, int]:
    """The two inputs and nothing else, counted on a gate of the course."""
    return _all_right(kept(swiglu, _gate_inputs(rows, ffn_size)))


def _all_right(bytes_kept: dict[str, int]) -> dict[str, int]:
    return {"wrong_results": 0, "wrong_gradients": 0, **bytes_kept}


def _keeps(tensors: int) -> Callable[[int, int], dict[str, int]]:
    return lambda rows, ffn_size: {"saved_bytes": tensors * FLOAT64_BYTES * rows * ffn_size}


FUSED_GATE = Check(
    cases=gate_cases,
    reference=swiglu,
    observe=observe_gate,
    judge=EqualTo(
        wanted_of_gate,
        Mistake(
            "The numbers are right, and three tensors are kept. Which one of them can be computed "
            "again from the other two?",
            _keeps(3),
        ),
        Mistake(
            "The numbers are right, and four tensors are kept. Which of them can be computed "
            "again from the two inputs?",
            _keeps(4),
        ),
        Mistake(
            "The numbers are right, and autograd was given nothing to keep. Where do your tensors "
            "live, and who will let go of them?",
            _keeps(0),
        ),
        Mistake(
            "Something that you made lives on where autograd does not see it. Who holds it until "
            "backward, and does backward need it?",
            lambda rows, ffn_size: {"unseen_bytes": FLOAT64_BYTES * rows * ffn_size},
        ),
        Mistake(
            "The result is right, both gradients are not. In which order does backward return "
            "them, and by what is each multiplied?",
            lambda rows, ffn_size: {"wrong_gradients": 2 * rows * ffn_size},
        ),
        Mistake(
            "The result is right and the gradient of one input is not. Which derivatives has "
            "silu(g) * u, and by what is each multiplied?",
            lambda rows, ffn_size: {"wrong_gradients": rows * ffn_size},
        ),
        together=True,
    ),
)


def layout_cases(seed: int) -> list[Case]:
    """Own and shared keys and values, one sequence and several, odd lengths."""
    rng = random.Random(seed)
    names = ("num_sequences", "seq_len", "num_heads", "num_kv_heads", "head_dim")
    cases = []
    for kv, group in ((2, 1), (rng.randint(2, 3), 3), (2, 5), (3, 1)):
        for num_sequences in (1, 2, rng.randint(3, 4)):
            for seq_len in (rng.randrange(3, 11, 2), rng.randrange(11, 19, 2)):
                sizes = (num_sequences, seq_len, kv * group, kv, rng.choice((4, 6, 8)))
                cases.append(dict(zip(names, sizes, strict=True)))
    return cases


def _heads(
    num_sequences: int, seq_len: int, num_heads: int, num_kv_heads: int, head_dim: int
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seq_len * num_heads)
    counts = (num_heads, num_kv_heads, num_kv_heads)
    return [_random(generator, num_sequences, seq_len, n, head_dim) for n in counts]


def _with_projection(attention: Function, case: Case) -> tuple[Function, nn.Linear]:
    """Attention and the output projection behind it, which keeps its input."""
    width = case["num_heads"] * case["head_dim"]
    projection = nn.Linear(width, 3, bias=False, dtype=torch.float64)
    return lambda q, k, v: projection(attention(q, k, v, rotate)), projection


def observe_layout(answer: Any, case: Case) -> object:
    """Numbers and gradients of the student's attention; bytes with the projection behind it."""
    inputs = _heads(**case)
    numbers = wrong_numbers(lambda q, k, v: answer(q, k, v, rotate), _rotated, inputs)
    whole, projection = _with_projection(answer, case)
    return numbers | kept(whole, inputs, projection)


def _rotated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attend(rotate(q), rotate(k), v)


def attend_with_rotation(q: Tensor, k: Tensor, v: Tensor, rotate: Function) -> Tensor:
    """The course's own answer: rotate while tokens stand before heads."""
    return attend(rotate(q), rotate(k), v)


def wanted_of_layout(**case: int) -> dict[str, int]:
    """What the course's attention keeps, counted with the projection behind it."""
    whole, projection = _with_projection(attend_with_rotation, dict(case))
    return _all_right(kept(whole, _heads(**case), projection))


def _also_keeps(sizes: Callable[[int, int, int, int, int], int]) -> Callable[..., dict[str, int]]:
    """A number of entries too many."""

    def formula(*case: int) -> dict[str, int]:
        b, s, a, kv, d = case
        right = FLOAT64_BYTES * b * s * d * (2 * a + 2 * kv) + 8 * a * b * s
        return {"saved_bytes": right + FLOAT64_BYTES * sizes(*case)}

    return formula


LOST_BYTES = Check(
    cases=layout_cases,
    reference=attend_with_rotation,
    observe=observe_layout,
    judge=EqualTo(
        wanted_of_layout,
        Mistake(
            "Your keys and values are kept once per query head. Which argument of fused attention "
            "makes that unnecessary?",
            _also_keeps(lambda b, s, a, kv, d: b * s * 2 * (a - kv) * d),
        ),
        Mistake(
            "The numbers are right, and one tensor as large as the queries is kept too many: it "
            "is a copy. In which order do tokens and heads of the queries lie in memory when "
            "fused attention gets them?",
            _also_keeps(lambda b, s, a, kv, d: b * s * a * d),
        ),
        together=True,
    ),
)
