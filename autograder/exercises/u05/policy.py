"""Check of a policy: which operations keep their results, and which run again?"""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u05 import policy
from autograder.observing.u05.policy import Products

FFN_SIZES = (31, 47)


def policy_cases(seed: int) -> list[Case]:
    """GPT and Llama, fused and materialised attention, own and shared keys and values."""
    rng = random.Random(seed)
    cases: list[Case] = []
    for number in range(5):
        for kind in ("GPT", "Llama"):
            for attention in ("fused", "written out"):
                kv, group = rng.randint(1, 2), rng.randint(2, 3) if number % 2 else 1
                cases.append(
                    {
                        "kind": kind,
                        "attention": attention,
                        "num_sequences": number % 2 + 1,
                        "seq_len": rng.choice((5, 9)),
                        "num_heads": kv * group,
                        "num_kv_heads": kv * group if kind == "GPT" else kv,
                        "head_dim": 4,
                        "ffn_size": rng.choice(FFN_SIZES),
                    }
                )
    return cases


def measured(**case: Any) -> dict[str, int]:
    """What products make in a forward pass, and how many a backward pass has by itself."""
    layer, x = policy.layer_and_input(**case)
    with Products() as forward:
        result = layer(x)
    with Products() as backward:
        result.backward(torch.ones_like(result))
    return {"kept_bytes": forward.num_bytes, "products_in_backward": backward.count}


# Places of the model answer.
CHOICE, IS_EXPENSIVE = "return keep if op in expensive else again", "op in expensive"
NAMES = {
    "mm": "aten.mm.default",
    "addmm": "aten.addmm.default",
    "bmm": "aten.bmm.default",
    "fused": "aten._scaled_dot_product_flash_attention_for_cpu.default",
}
NOTHING_KEPT = (
    "Nothing is kept beside the input: no operation matches one of yours, or your policy returns "
    "no CheckpointPolicy. What does `print(op)` show, and is that equal to what you "
    "compare it with?"
)
LAST_PRODUCT = (
    "One result fewer is kept, as large as that of the layer: no gradient needs the last product, "
    "and so nothing runs again. Which products does the exercise want kept?"
)


def _without(*names: str) -> dict[str, str]:
    """A list that lacks some operations."""
    return {f"        {NAMES[name]},\n": "" for name in names}


def _also(*names: str) -> dict[str, str]:
    """Operations with one of these words in their names are kept, too."""
    return {IS_EXPENSIVE: " or ".join([IS_EXPENSIVE, *(f"{name!r} in str(op)" for name in names)])}


EDITS = (
    Edit(NOTHING_KEPT, {IS_EXPENSIVE: "False"}),
    Edit(NOTHING_KEPT, {CHOICE: "op in expensive"}),
    Edit(
        "Every result is kept. Which operations cost next to nothing to run again?",
        {IS_EXPENSIVE: "True"},
    ),
    Edit(
        "You keep what is cheap and run again what is expensive. Which of the two policies is for "
        "a product?",
        {IS_EXPENSIVE: "op not in expensive"},
    ),
    Edit(
        "The products with a bias run again. What is a linear layer with a bias called in the "
        "exercise's table?",
        _without("addmm"),
    ),
    Edit(
        "The products of many matrices at once run again. What is the product of queries and keys "
        "called where the scores are in memory?",
        _without("bmm"),
    ),
    Edit(
        "Linear layers without a bias run again. What are they called in the exercise's table?",
        _without("mm"),
    ),
    Edit("Fused attention runs again. What is it called on a CPU?", _without("fused")),
    Edit(
        "Products with a bias run again, and products of many matrices at once. Which rows of the "
        "exercise's table have you left out?",
        _without("addmm", "bmm"),
    ),
    Edit(
        "Attention runs again, fused and with its scores in memory. Which rows of the exercise's "
        "table are attention's?",
        _without("bmm", "fused"),
    ),
    Edit(
        "Only `mm` is kept. Which other rows of the exercise's table are products?",
        _without("addmm", "bmm", "fused"),
    ),
    Edit(
        "Only fused attention is kept. Where are most of a layer's FLOPs?",
        _without("mm", "addmm", "bmm"),
    ),
    Edit(
        "Only attention is kept, fused and with its scores in memory. Where are most of a layer's "
        "FLOPs?",
        _without("mm", "addmm"),
    ),
    *(
        Edit(
            "More than products is kept. Which activation function do you save, and what does it "
            "cost to run again?",
            _also(*names),
        )
        for names in (("silu", "gelu"), ("silu",), ("gelu",))
    ),
    Edit(
        "Results of activation function and softmax are kept beside those of products. What does "
        "it cost to make them again?",
        _also("silu", "gelu", "softmax"),
    ),
    Edit(
        "Results of softmax are kept beside those of the products. What does it cost to make them "
        "again from the scores?",
        _also("softmax"),
    ),
    *(
        Edit(
            "Additions, multiplications or norms are kept beside the products. Which of your "
            "conditions lets them through, and what do they cost to run again?",
            _also(*names),
        )
        for names in (("add",), ("mul",), ("add", "mul"), ("norm",), ("mean",))
    ),
    *(
        Edit(
            "The products into the feed-forward block run again, the widest of all. What does "
            "that cost, and which products does the exercise want kept?",
            {IS_EXPENSIVE: f"op in expensive and not ({is_wide})"},
        )
        for is_wide in (
            f"'mm' in str(op) and args[-1].shape[-1] in {FFN_SIZES}",
            f"op == aten.mm.default and args[1].shape[-1] in {FFN_SIZES}",
        )
    ),
    *(
        Edit(LAST_PRODUCT, {IS_EXPENSIVE: f"op in expensive and not ({is_last})"})
        for is_last in (
            f"'mm' in str(op) and args[-2].shape[-1] in {FFN_SIZES}",
            f"op == aten.mm.default and args[1].shape[0] in {FFN_SIZES}",
        )
    ),
)

CHECK = Check(
    cases=policy_cases,
    observe=policy.observe,
    judge=Behaviour(
        measured,
        *edited("u05-policy", EDITS, observe=policy.observe),
        questions={
            "kept_bytes": "Print each operation that your policy is asked about. Which results "
            "does it keep, and which of them are products?",
            "products_in_backward": "A product runs twice. Under which name does the operation "
            "come, and is that name in your list?",
        },
        labels=policy.LABELS,
    ),
    fallback="course_utils.reference.recomputation.save_products",
    answers=("course_utils.reference.recomputation",),
)
