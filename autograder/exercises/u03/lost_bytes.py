"""Check of attention that keeps no copies made for a memory layout."""

import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, model_answer, questions_of
from autograder.exercises.u03.shared.counters import COUNTERS
from autograder.observing.u03 import lost_bytes
from autograder.observing.u03.kept import BESIDE, LABELS, gradients_of
from autograder.observing.u03.lost_bytes import inputs_of, projection_of
from course_utils.instruments import count_saved_bytes
from course_utils.reference.fused import rotate

RESULT = ("wrong_first", "wrong_between", "wrong_last")
NAMES = ("num_sequences", "seq_len", "num_heads", "num_kv_heads", "head_dim")


def layout_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query and multi-query; one sequence and several; odd lengths."""
    rng = random.Random(seed)
    cases = []
    for kv, group in ((2, 1), (rng.randint(2, 3), 3), (1, 4), (3, 1)):
        for num_sequences in (1, 2, rng.randint(3, 4)):
            for seq_len in (rng.randrange(3, 9, 2), rng.randrange(9, 14, 2)):
                sizes = (num_sequences, seq_len, kv * group, kv, rng.choice((4, 6)))
                cases.append(dict(zip(NAMES, sizes, strict=True)))
    return cases


def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention on rotated queries and keys, with all scores in memory."""
    group = q.shape[2] // k.shape[2]
    k, v = (each.repeat_interleave(group, dim=2) for each in (rotate(k), v))
    scores = torch.einsum("bsad,btad->bast", rotate(q), k) * q.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return torch.einsum("bast,btad->bsad", weights, v).flatten(-2)


def measured(**case: Any) -> dict[str, Any]:
    """Results and gradients with all scores in memory; the bytes that the model answer keeps."""
    inputs, projection = inputs_of(case), projection_of(case)
    result = written_out(*inputs)
    lean = model_answer("u03-lost-bytes")
    kept = count_saved_bytes(lambda: projection(lean(*inputs, rotate)), projection)
    return {
        **dict.fromkeys(("other_shape", *RESULT, "rounded_results", *BESIDE, "kept_scores"), 0),
        "saved_bytes": kept.total_bytes,
        "unseen_bytes": 0,
        "result": result.detach(),
        "gradients": gradients_of(result, inputs),
    }


def _num_wrong(b: int, s: int, a: int, kv: int, d: int) -> dict[str, int]:
    """How many entries first, last and other tokens have."""
    return dict(zip(RESULT, (b * a * d, b * (s - 2) * a * d, b * a * d), strict=True))


FIRST_IS_RIGHT = (
    "Only the first token's result is right, so your positions come in differently than in the "
    "code above. Which of q, k and v does it rotate, and which axis holds the tokens at that "
    "point?"
)
LAST_IS_RIGHT = (
    "Only the last token's result is right. Which tokens may each of the earlier ones see?"
)


CHECK = Check(
    cases=layout_cases,
    observe=lost_bytes.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u03-lost-bytes", observe=lost_bytes.observe),
        Symptom(FIRST_IS_RIGHT, lambda *sizes: _num_wrong(*sizes) | {"wrong_first": 0}),
        Symptom(LAST_IS_RIGHT, lambda *sizes: _num_wrong(*sizes) | {"wrong_last": 0}),
        summarise=lost_bytes.summarise,
        questions=questions_of("u03-lost-bytes"),
        labels=LABELS
        | {
            "other_shape": "The shape of the result is wrong.",
            "wrong_first": "wrong numbers at first tokens",
            "wrong_between": "wrong numbers at tokens in between",
            "wrong_last": "wrong numbers at last tokens",
            "kept_scores": "The scores of all pairs of tokens are kept.",
        },
    ),
    answers=(*COUNTERS, "course_utils.reference.attention"),
)
