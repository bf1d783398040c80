"""Check of a backward pass that makes attention weights again: gradients, bytes, FLOPs."""

import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, any_of, edited
from autograder.observing.checksums import checksum
from autograder.observing.u03.kept import gradients_of
from autograder.observing.u06 import backward
from autograder.observing.u06.backward import APART, FROZEN, PARTS, QKV, inputs_of

NAMES = ("kind", "heads", "seq_len", "head_dim", "block")


def backward_cases(seed: int) -> list[Case]:
    """Whole and ragged tiles, one head and several, parts of one tensor, frozen values."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(APART, [1], 4, 2, 2)]
    kinds = (APART, PARTS, APART, PARTS, FROZEN)
    for number in range(20):
        block = rng.randint(5, 8)
        num_tiles = 3 if number < 5 else 2
        missing = 0 if number % 2 else rng.randint(1, block - 1)  # from the last tile
        seq_len = num_tiles * block - missing
        heads = ([1], [2], [1, 2])[number % 3]
        cases.append((kinds[number % 5], heads, seq_len, rng.randint(2, 3), block))
    cases += [(APART, [2], rng.randint(4, 8), 3, 9), (APART, [1], rng.randint(3, 8), 2, 1)]
    return [dict(zip(NAMES, case, strict=True)) for case in cases]


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention with every score in memory."""
    hidden = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
    result: Tensor = scores.softmax(-1) @ v
    return result


def measured(**case: Any) -> dict[str, Any]:
    """Gradients that autograd finds with all scores; bytes and FLOPs from the shapes.

    Two products for each visited tile in forward, five in backward.
    """
    inputs = inputs_of(case)
    result = exact(*inputs)
    gradients = gradients_of(result, inputs)
    block, seq_len = case["block"], case["seq_len"]
    sides = [min(block, seq_len - start) for start in range(0, seq_len, block)]
    pairs = sum(height * width for n, height in enumerate(sides) for width in sides[: n + 1])
    num_heads = inputs[0].shape[:-2].numel()
    product = 2 * num_heads * pairs * case["head_dim"]
    kept = inputs[0].numel() * 8 + num_heads * seq_len * 8
    given = {each.untyped_storage()._cdata: each.untyped_storage().nbytes() for each in inputs}
    named = {name: each for name, each in zip(QKV, gradients, strict=False) if each is not None}
    return {
        "wrong_rows": 0,
        "changed_inputs": 0,
        **{f"wrong_d{name}": 0 for name in named},
        **{f"d{name}_checksum": checksum(each, each) for name, each in named.items()},
        "calls_of_forward": 1,
        "saved_bytes": sum(given.values()) + kept,
        "copied_bytes": kept,
        "unseen_bytes": 0,
        "forward_flops": 2 * product,
        "backward_flops": 5 * product,
        "square_tensors": 0,
        "result": result.detach(),
        "gradients": gradients,
    }


# Places of the model answer.
CALL, SAVE = "out, lse = forward(q, k, v, block)", "ctx.save_for_backward(q, k, v, out, lse)"
RETURN_OUT = f"{SAVE}\n            return out\n"
LOADED, APPLY = "q, k, v, out, lse = ctx.saved_tensors", "return Flash.apply(q, k, v)"
DELTA, WITH_DELTA = "(upstream * out)", "(of_weights - delta[..., here, :])"
OF_SCORES = f"weights * {WITH_DELTA} * scale"
SCORES = "scores = q[..., here, :] @ k[..., there, :].mT * scale"
MASK, LOOP = "if i == j:", "range(0, i + 1, block)"
WEIGHTS = "torch.exp(scores - lse[..., here, None])"
TO_Q, TO_K = "grad_q[..., here, :] += of", "grad_k[..., there, :] += of"
TO_V = "grad_v[..., there, :] += weights.mT"

SAVED, GRADIENTS = ("saved_bytes",), tuple(f"d{name}_checksum" for name in QKV)
LATER = """if j > i:
                        scores = torch.full_like(scores, -torch.inf)
                    if i == j:"""
EDITS = (
    Edit(
        "Somebody else's kernel does all of it. How often is `forward` called, and which of its "
        "results does your backward pass go on with?",
        {APPLY: "return F.scaled_dot_product_attention(q, k, v, is_causal=True)"},
        shows=("calls_of_forward",),
    ),
    Edit(
        "dv is right, dq and dk are not. By how much does the softmax itself lower every dP of a "
        "row, since its weights sum to one?",
        {OF_SCORES: "weights * of_weights * scale"},
    ),
    Edit(
        "dv is right, dq and dk are not. The sum of P · dP goes over all keys of a row. Which keys "
        "does yours see?",
        {WITH_DELTA: "(of_weights - (weights * of_weights).sum(-1, keepdim=True))"},
    ),
    Edit(
        "Weights of a row sum to one over all keys, yours in every tile. Which number of forward "
        "stands for all of them?",
        {WEIGHTS: "scores.softmax(-1)"},
    ),
    Edit(
        "Each query has a log-sum-exp of its own. Along which axis of a tile do queries run, and "
        "along which does yours?",
        {WEIGHTS: "torch.exp(scores - lse[..., None, here])"},
    ),
    Edit(
        "dv is right, dq and dk are not: both are off by one factor. Where did forward apply the "
        "scale?",
        {OF_SCORES: f"weights * {WITH_DELTA}"},
    ),
    *(
        Edit(
            "One of dq and dk is right, the other is off by one factor. Whose derivative are both "
            "of them, and where does the scale stand in it?",
            {OF_SCORES: f"weights * {WITH_DELTA}", to: to.replace("of", "scale * of")},
        )
        for to in (TO_Q, TO_K)
    ),
    Edit(
        "The number that each row subtracts is not the right one. Whose product with the upstream "
        "gradient is the sum of P · dP over a row?",
        {DELTA: "(upstream * v)"},
    ),
    Edit(
        "All three gradients are wrong. Which scores are minus infinity in backward, too?",
        {MASK: "if False:"},
    ),
    Edit(
        "Weights of a row do not sum to one in your backward pass. What is subtracted from a score "
        "before its exponential, so that nothing has to be divided?",
        {WEIGHTS: "torch.exp(scores)"},
    ),
    Edit(
        "Scores of your backward pass are not those of forward. By what does forward multiply "
        "each of them?",
        {SCORES: SCORES.replace(" * scale", "")},
    ),
    *any_of(
        "A gradient holds what the last tile gave it, and nothing of the others. How many tiles "
        "add something to one row of it?",
        {TO_Q: TO_Q.replace("+=", "=")},
        {TO_K: TO_K.replace("+=", "=")},
        {TO_V: TO_V.replace("+=", "=")},
    ),
    Edit(
        "Gradients are right, and backward takes more FLOPs than its tiles on and below the "
        "diagonal. Which tiles do you compute and throw away?",
        {LOOP: "range(0, q.shape[-2], block)", MASK: LATER},
        shows=("backward_flops",),
    ),
    Edit(
        "An s × s tensor waits for backward. From which kept tensors can a tile of it be made "
        "again?",
        {
            CALL: f"{CALL}\n            scores = q @ k.mT",
            SAVE: "ctx.save_for_backward(q, k, v, out, lse, scores)",
            LOADED: "q, k, v, out, lse, _ = ctx.saved_tensors",
        },
        shows=SAVED,
    ),
    Edit(
        "The numbers are right, and autograd keeps less than you use: the result hangs on `ctx`. "
        "Which method of `ctx` tells autograd of a tensor?",
        {
            SAVE: "ctx.save_for_backward(q, k, v, lse)\n            ctx.out = out",
            LOADED: "(q, k, v, lse), out = ctx.saved_tensors, ctx.out",
        },
        shows=SAVED,
    ),
    Edit(
        "The numbers are right, and autograd keeps less than you use: the log-sum-exp hangs on "
        "`ctx`. Which method of `ctx` tells autograd of a tensor?",
        {
            SAVE: "ctx.save_for_backward(q, k, v, out)\n            ctx.lse = lse",
            LOADED: "(q, k, v, out), lse = ctx.saved_tensors, ctx.lse",
        },
        shows=SAVED,
    ),
    Edit(
        "The numbers are right, and autograd keeps less than you use: the result and the "
        "log-sum-exp hang on `ctx`. Which method of `ctx` tells autograd of a tensor?",
        {
            SAVE: "ctx.save_for_backward(q, k, v)\n            ctx.made = out, lse",
            LOADED: "(q, k, v), (out, lse) = ctx.saved_tensors, ctx.made",
        },
        shows=SAVED,
    ),
    Edit(
        "You keep one tensor more than the five, as large as the queries. From which of the five "
        "can it be made again?",
        {
            SAVE: "ctx.save_for_backward(q, k, v, out, lse, q * q.shape[-1] ** -0.5)",
            LOADED: "q, k, v, out, lse, _ = ctx.saved_tensors",
        },
        shows=("saved_bytes", "copied_bytes"),
    ),
    Edit(
        "Autograd keeps nothing of yours, and backward has its tensors all the same. Who holds "
        "them, and which method of `ctx` is made for that?",
        {SAVE: "ctx.kept = q, k, v, out, lse", "ctx.saved_tensors": "ctx.kept"},
        shows=SAVED,
    ),
    Edit(
        "Backward runs the whole forward pass again. Which two results of it could be kept?",
        {
            SAVE: "ctx.save_for_backward(q, k, v)",
            LOADED: "q, k, v = ctx.saved_tensors\n            out, lse = forward(q, k, v, block)",
        },
        shows=("calls_of_forward",),
    ),
    Edit(
        "Where q, k and v are parts of one tensor you keep copies of them. Which operation copies "
        "only what does not lie in one piece?",
        {SAVE: "ctx.save_for_backward(*(t.contiguous() for t in (q, k, v)), out, lse)"},
        shows=("copied_bytes",),
    ),
    Edit(
        "Copies of q, k and v are kept. While somebody else holds the three, what do yours cost?",
        {SAVE: "ctx.save_for_backward(q.clone(), k.clone(), v.clone(), out, lse)"},
        shows=("copied_bytes",),
    ),
    Edit(
        "Something that you made lives on where autograd does not see it. What of `ctx` holds it, "
        "and does backward need it?",
        {SAVE: f"{SAVE}; ctx.square = out * out"},
        shows=("unseen_bytes",),
    ),
    Edit(
        "Forward is recorded tile by tile, and autograd keeps them all. In which method of an "
        "autograd function is nothing recorded?",
        {APPLY: "return forward(q, k, v, block)[0]"},
        shows=SAVED,
    ),
    Edit(
        "Somewhere there is a tensor of s · s numbers or more. How large is the largest that one "
        "tile needs?",
        {LOADED: f"{LOADED}\n            q.new_zeros(q.shape[-2], q.shape[-2])"},
        shows=("square_tensors",),
    ),
    Edit(
        "dq and dk have changed places. In which order does backward return gradients?",
        {"return grad_q, grad_k, grad_v": "return grad_k, grad_q, grad_v"},
    ),
    Edit(
        "The result itself is wrong. In which order does `forward` take queries, keys and values?",
        {CALL: "out, lse = forward(k, q, v, block)"},
        shows=("wrong_rows",),
    ),
    Edit(
        "Gradients are right, and an input is other numbers afterwards. Which of your operations "
        "writes into the tensor that it is called on?",
        {
            LOADED: f"{LOADED}\n            q.mul_(q.shape[-1] ** -0.5)",
            SCORES: SCORES.removesuffix(" * scale"),
            OF_SCORES: f"weights * {WITH_DELTA}",
            TO_Q: f"{TO_Q.removesuffix(' of')} scale * of",
        },
        shows=("changed_inputs",),
    ),
)

CHECK = Check(
    cases=backward_cases,
    observe=backward.observe,
    judge=Behaviour(
        measured,
        *edited("u06-backward", EDITS, observe=backward.observe),
        summarise=backward.summarise,
        labels=backward.LABELS,
        questions={
            "wrong_rows": "What does `forward` return, and what do you hand on?",
            "saved_bytes": "Other bytes are kept than those of five tensors. Which ones does your "
            "backward pass read, and which of them are inputs?",
            "unseen_bytes": "Something of yours lives on between the passes. Which name holds it?",
            "forward_flops": "The result is right, and `forward` is not all that computes in the "
            "forward pass. What else multiplies there?",
            "backward_flops": "Gradients are right, and backward is not five products for each "
            "tile on and below the diagonal. Which product is there twice, or for nothing?",
            "wrong_dv": "dv is the first that is wrong. Which two matrices of a tile give it?",
            "wrong_dk": "dq is right, dk is not. Which axis do you sum over for each of the two?",
            "wrong_dq": "dq is the first that is wrong. Which of the five products of a tile give "
            "it, and is each of their factors right?",
        },
    ),
    fallback="course_utils.reference.flash.flash_attention",
    answers=("course_utils.reference.flash",),
)
