"""Check of a model's parameters, part by part."""

import random
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, any_of, each_also, edited
from autograder.exercises.u03.shared.counters import COUNTERS, just_above
from course_utils.reference import Transformer

GPT = {"is_gated": False, "has_biases": True, "is_tied": True}
NAMES = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "ffn_size", "vocab_size")


def parameters_cases(seed: int) -> list[Case]:
    """GPT with and without learned positions; Llama with MHA, GQA and MQA; both tied and untied.

    Biases occur in gated blocks too, and heads that are together wider or narrower than the model.
    The last counts are beyond a float.
    """
    rng = random.Random(seed)
    models = [_named(2, 4, 2, 1, 3, 5) | {"is_tied": False}]  # the worked one
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for is_tied in (True, False):
            models += [_sizes(rng, kv, group) | {"is_tied": is_tied} for _ in range(2)]
    models += [_sizes(rng, 2, 2) | {"is_tied": False, "head_dim": 16}]
    models += [_sizes(rng, 2, 3) | GPT | {"head_dim": 2}]
    for num_positions in (0, rng.randint(5, 99), rng.randint(100, 999)):
        for kv in (1, rng.randint(2, 5)):
            others = {"num_positions": num_positions, "is_tied": kv == 1}
            models += [_sizes(rng, kv, 1) | GPT | others]
    for kv in (1, rng.randint(2, 5)):
        models += [_sizes(rng, kv, 2) | {"has_biases": True, "is_tied": False}]
    gpt_2 = _named(rng.randint(2, 99), 768, 12, 12, 3072, 50257)
    llama_1b = _named(rng.randint(2, 99), 2048, 32, 8, 8192, 128256)
    models += [gpt_2 | GPT | {"num_positions": 1024}, llama_1b | {"is_tied": True}]
    huge = [just_above(28, rng) for _ in range(3)]
    models += [_named(2, 3 * huge[0], 3, 1, *huge[1:]) | {"is_tied": False}]
    return [{"model": model} for model in models]


def _sizes(rng: random.Random, kv: int, group: int) -> dict[str, Any]:
    hidden_size = kv * group * rng.choice((4, 8, 12))
    return _named(
        *(rng.randint(2, 4), hidden_size, kv * group, kv),
        *(rng.randrange(5, 99, 2), rng.randrange(11, 999, 2)),
    )


def _named(*sizes: int) -> dict[str, Any]:
    return dict(zip(NAMES, sizes, strict=True))


def measured_parameters(model: dict[str, Any]) -> dict[str, int]:
    """The numbers in the tensors of a model on the meta device, by module."""
    counts = {"attention": 0, "feed_forward": 0, "norms": 0, "embedding_and_head": 0}
    for name, weight in Transformer(model_of(model), device="meta").named_parameters():
        counts[_part_of(name)] += weight.numel()
    return counts


def _part_of(name: str) -> str:
    if "norm" in name:
        return "norms"
    if ".attention." in name:
        return "attention"
    return "feed_forward" if ".ffn." in name else "embedding_and_head"


# Places of the model answer.
QUERIES, KEYS = "model.num_heads * model.head_dim", "model.num_kv_heads * model.head_dim"
BIASES, INNER_BIASES = "query_width + 2 * kv_width + h", "(2 if model.is_gated else 1) * f + h"
ATTENTION = "2 * h * query_width + 2 * h * kv_width"
MATRICES, HEADS = "3 if model.is_gated else 2", "1 if model.is_tied else 2"
ONE_INNER_BIAS = {INNER_BIASES: "f + h"}

OF_ALL_LAYERS = {f"model.num_layers * {part}": part for part in ("attention", "feed_forward")}
ONE_LAYER = "You count one layer. How many are there?"
INNER_WIDTH = "You use 4 h as the inner width. Which size of the model gives it?"
EDITS = (
    Edit(ONE_LAYER, OF_ALL_LAYERS, points=1.0),
    *(Edit(ONE_LAYER, {old: new}, points=1.5) for old, new in OF_ALL_LAYERS.items()),
    Edit(
        ONE_LAYER,
        {**OF_ALL_LAYERS, "2 * model.num_layers + 1": "3"},
        points=0.5,
    ),
    Edit(
        "Your keys and values are as wide as the queries. How many heads do they have?",
        {KEYS: QUERIES},
        points=1.5,
    ),
    *any_of(
        "Your answer is right only where all query heads together are as wide as the model. How "
        "wide are they, given `num_heads` and `head_dim`?",
        {QUERIES: "h"},
        {KEYS: "model.num_kv_heads * h // model.num_heads"},
        points=1.5,
    ),
    *(
        Edit(
            "Your attention is right only where every query head has its own keys and values, "
            "and all heads together are as wide as the model. What are the shapes of its four "
            "matrices?",
            {ATTENTION: "4 * h * h", **of_biases},
            points=1.5,
        )
        for of_biases in ({}, {BIASES: "0"}, {BIASES: "4 * h"})
    ),
    Edit(
        "Your attention never has biases. Which of its four matrices have one in a model with "
        "biases?",
        {BIASES: "0"},
        points=1.5,
    ),
    Edit(
        "You count three biases in attention. Which of its four matrices have one?",
        {BIASES: "query_width + 2 * kv_width"},
        points=1.5,
    ),
    Edit(
        "Your four biases of attention are all as wide as the model. How many outputs does the "
        "matrix of the keys have?",
        {BIASES: "4 * h"},
        points=1.5,
    ),
    Edit(
        "Your feed-forward block never has biases. How many outputs does each of its matrices "
        "have?",
        {INNER_BIASES: "0"},
        points=1.5,
    ),
    Edit(
        "Your feed-forward block has only the bias of W_down. Which of its other matrices have "
        "one?",
        {INNER_BIASES: "h"},
        points=1.5,
    ),
    Edit(
        "You count too few biases in gated blocks. How many outputs does each of the three "
        "matrices have?",
        ONE_INNER_BIAS,
        points=1.5,
    ),
    *each_also(
        [
            Edit(
                "You count two matrices in every feed-forward block. What does `is_gated` say?",
                {MATRICES: "2"},
                points=1.5,
            ),
            Edit(
                "You count three matrices in every feed-forward block. What does `is_gated` say?",
                {MATRICES: "3"},
                points=1.5,
            ),
            Edit(INNER_WIDTH, {") * h * f": ") * h * 4 * h"}, points=1.5),
        ],
        ONE_INNER_BIAS,
    ),
    Edit(INNER_WIDTH, {"model.ffn_size": "4 * model.hidden_size"}, points=1.5),
    Edit(
        "The norm after the last layer is missing. How many norms does the whole model have?",
        {"2 * model.num_layers + 1": "2 * model.num_layers"},
        points=1.5,
    ),
    Edit(
        "You count only the weights of the norms. What else does a LayerNorm have?",
        {"norm = 2 * h": "norm = 1 * h"},
        points=1.5,
    ),
    Edit(
        "Your norms have biases in every model. What does `has_biases` say?",
        {"norm = h": "norm = h + h"},
        points=1.5,
    ),
    Edit(
        "You count one norm per layer. What comes before each of its two blocks?",
        {"2 * model.num_layers + 1": "model.num_layers + 1"},
        points=1.5,
    ),
    Edit(
        "Your head has a matrix of its own even where it is tied. How often is a shared matrix "
        "stored?",
        {HEADS: "2"},
        points=1.5,
    ),
    Edit("Your head is always tied. What does `is_tied` say?", {HEADS: "1"}, points=1.5),
    Edit(
        "The learned positions are missing. In which table is a position looked up?",
        {" + model.num_positions": ""},
        points=1.5,
    ),
    Edit(
        "You count the learned positions twice where the head is not tied. Does a head look up "
        "positions?",
        {
            "model.vocab_size * (": "(model.vocab_size + model.num_positions) * (",
            ") + model.num_positions": ")",
        },
        points=1.5,
    ),
    Edit(
        "You count the head where `is_tied` is set, and leave it out where it is not. What does "
        "a tied model store only once?",
        {HEADS: "2 if model.is_tied else 1"},
        points=1.5,
    ),
)

CHECK = Check(
    cases=parameters_cases,
    judge=EqualTo(measured_parameters, *edited("u03-parameters", EDITS)),
    fallback="course_utils.formulas.parameters.parameters_by_part",
    answers=COUNTERS,
)
