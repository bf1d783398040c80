"""Check of attention that keeps no copies made for a memory layout."""

import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited, model_answer
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

# Places of the model answer.
HEADS_FIRST = "heads_first = [each.transpose(1, 2) for each in (rotate(q), rotate(k), v)]"
CALL = "F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True)"
BACK = "result.transpose(1, 2).flatten(2)"
GROUP = "n = q.shape[2] // k.shape[2]\n    "

SAVED = ("saved_bytes",)
COPY_OF_QUERIES = (
    "The numbers are right, but you keep one extra tensor as large as the queries: a copy. In "
    "which order do tokens and heads of the queries lie in memory when fused attention gets "
    "them?"
)
EDITS = (
    Edit(
        "Your result has the right shape, but its numbers are in the wrong order: heads before "
        "tokens. Which two axes have to be swapped before the last two become one?",
        {BACK: "result.reshape(result.shape[0], result.shape[2], -1)"},
        shows=RESULT,
    ),
    Edit(
        "Your keys and values are kept once per query head. Which argument of fused attention "
        "makes that unnecessary?",
        {
            HEADS_FIRST: f"{GROUP}k, v = (x.repeat_interleave(n, dim=2) for x in (k, v))\n"
            f"    {HEADS_FIRST}"
        },
        shows=SAVED,
    ),
    Edit(
        "Your result is right only where every query head has keys of its own. How do shared "
        "heads line up with the query heads: 0 0 1 1 or 0 1 0 1?",
        {
            HEADS_FIRST: f"{GROUP}k, v = k.repeat(1, 1, n, 1), v.repeat(1, 1, n, 1)\n"
            f"    {HEADS_FIRST}"
        },
        shows=(*RESULT, *SAVED),
    ),
    Edit(
        COPY_OF_QUERIES,
        {HEADS_FIRST: HEADS_FIRST.replace("(1, 2)", "(1, 2).contiguous()")},
        shows=SAVED,
    ),
    Edit(
        "Your result has the wrong shape. Which two of its axes should become one?",
        {BACK: "result.transpose(1, 2)"},
        shows=("other_shape",),
    ),
    Edit(
        "The result is right, but backward reaches none of q, k and v. Which operation cuts it "
        "off?",
        {BACK: f"{BACK}.detach().requires_grad_()"},
        shows=("wrong_gradients",),
    ),
    Edit(
        "Queries or keys are other numbers afterwards. Which of your lines writes into a tensor "
        "that somebody else still needs?",
        {HEADS_FIRST: f"q.data.copy_(rotate(q))\n    {HEADS_FIRST.replace('rotate(q)', 'q')}"},
        shows=("changed_inputs",),
    ),
    Edit(
        "Your attention runs over the heads of each token. On which axis does fused attention "
        "expect the tokens?",
        {HEADS_FIRST: "heads_first = [rotate(q), rotate(k), v]", BACK: "result.flatten(2)"},
    ),
    Edit(
        "Attention runs over the heads of each token. On which axis does fused attention expect "
        "the tokens?",
        {
            HEADS_FIRST: f"{GROUP}k, v = (x.repeat_interleave(n, dim=2) for x in (rotate(k), v))\n"
            "    heads_first = [rotate(q), k, v]",
            BACK: "result.flatten(2)",
        },
    ),
    Edit(
        "Only shared key heads are wrong: every query head meets the first of them. Which one "
        "belongs to the third of four query heads when there are two?",
        {
            HEADS_FIRST: "k = rotate(k)\n    if k.shape[2] < q.shape[2]:\n"
            "        k, v = (x[:, :, :1].expand_as(q) for x in (k, v))\n    "
            + HEADS_FIRST.replace("rotate(k)", "k")
        },
        shows=RESULT,
    ),
    Edit(
        "You keep all scores. Which function gives the same result without storing them?",
        {
            HEADS_FIRST: f"{GROUP}k, v = (x.repeat_interleave(n, dim=2) for x in (rotate(k), v))",
            CALL: "torch.einsum('bsad,btad->bast', rotate(q), k) / q.shape[-1] ** 0.5\n"
            "    hidden = torch.ones(result.shape[-2:], dtype=torch.bool).triu(1)\n"
            "    result = result.masked_fill(hidden, -torch.inf).softmax(-1)\n"
            "    result = torch.einsum('bast,btad->basd', result, v)",
        },
        shows=("kept_scores",),
    ),
    Edit(
        "Nearly: the first digits are right and the last are not. In which precision do q, k and v "
        "come, and in which do you multiply?",
        {
            HEADS_FIRST: HEADS_FIRST.replace("(1, 2)", "(1, 2).bfloat16()"),
            "return result": "return result.to(q.dtype)",
        },
        shows=("rounded_results",),
    ),
    Edit(
        "The result is right, but a gradient is wrong. Which of q, k and v does backward not "
        "reach, or reach differently?",
        {HEADS_FIRST: HEADS_FIRST.replace(" v)", " v.detach())")},
        shows=("wrong_gradients",),
    ),
    *(
        Edit(
            "Autograd keeps less than this attention needs, so backward recomputes it. Which "
            "one copy should go?",
            {
                CALL: "torch.utils.checkpoint.checkpoint(\n        lambda q, k, v: "
                "F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),\n"
                f"        *heads_first, use_reentrant={use_reentrant})"
            },
            shows=SAVED,
        )
        for use_reentrant in (True, False)
    ),
    Edit(
        "Something that you made stays alive where autograd does not see it. Who still holds it "
        "after you return the result?",
        {HEADS_FIRST: f"{HEADS_FIRST}\n    lean_attend.kept = rotate(q).detach().abs()"},
        shows=("unseen_bytes",),
    ),
)

CHECK = Check(
    cases=layout_cases,
    observe=lost_bytes.observe,
    judge=Behaviour(
        measured,
        *edited("u03-lost-bytes", EDITS, observe=lost_bytes.observe),
        Symptom(FIRST_IS_RIGHT, lambda *sizes: _num_wrong(*sizes) | {"wrong_first": 0}),
        Symptom(LAST_IS_RIGHT, lambda *sizes: _num_wrong(*sizes) | {"wrong_last": 0}),
        summarise=lost_bytes.summarise,
        questions={
            "wrong_first": "Even the first token's result is wrong, and that token sees only "
            "itself: its result is its value. Which of q, k and v does yours mix up?",
            "kept_scores": "Which operation makes the scores, and which one could do it without "
            "keeping them?",
            "wrong_between": "First tokens are right, those in between are not. Which keys may "
            "each of them see?",
            "saved_bytes": "The numbers are right, the bytes are not. Which tensors does each "
            "operation keep, and is there one with fewer?",
        },
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
