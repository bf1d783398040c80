"""Check of the repaired formula for the training FLOPs of one token."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import ROUNDED_BY_A_FLOAT, EqualTo
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, any_of, edited
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    counted_model,
    model_cases,
)


def measured_training_flops_per_token(model: dict[str, Any], seq_len: int) -> int:
    """Counted FLOPs of a forward and a backward pass, divided by the tokens."""
    return sum(counted_model(model, 1, seq_len)) // seq_len


def repair_cases(seed: int) -> list[Case]:
    """The models of this unit, and one that divides badly: its head by layers, 12 by its groups."""
    rng = random.Random(seed)
    seven_layers = {
        **{"num_layers": 7, "hidden_size": 40, "num_heads": 10, "num_kv_heads": 2},
        **{"ffn_size": rng.randrange(5, 99, 2), "vocab_size": 7 * rng.randint(9, 99) + 1},
        "is_tied": False,
    }
    cases = [{"model": c["model"], "seq_len": c["seq_len"]} for c in model_cases(seed)]
    telling = (case for n, case in enumerate(cases) if case not in cases[:n])
    return [*telling, {"model": seven_layers, "seq_len": rng.randrange(3, 99, 2)}]


SHARED_HEADS = "12 * dim**2 * model.num_kv_heads // model.num_heads"
FEED_FORWARD, CORE = "18 * dim * model.ffn_size", "12 * dim * seq_len"
HEAD, SUM = "6 * model.vocab_size * dim", "model.num_layers * layer + head"
LOST_TWICE = (
    "Your head is divided by the width. What was the bracket, and the vocabulary in it, "
    "multiplied by?"
)
EDITS = (
    Edit(
        "You split the head among the layers and round down. Does the head belong to the layers "
        "at all?",
        {SUM: "model.num_layers * (layer + head // model.num_layers)"},
    ),
    Edit(
        "Where heads share keys and values, yours cost nothing, because 2 // 8 is 0. Which "
        "operation has to come before that division?",
        {SHARED_HEADS: "12 * dim**2 * (model.num_kv_heads // model.num_heads)"},
    ),
    Edit(
        "You drop the head when `is_tied` is set. Are the logits of a tied model free?",
        {HEAD: "0 if model.is_tied else 6 * model.vocab_size * dim"},
    ),
    Edit(
        "You still count the vocabulary in every layer. How often does a model compute logits?",
        {SUM: "model.num_layers * (layer + head)"},
    ),
    *any_of(
        "Each // in the bracket drops a remainder, which dim² then makes large. In which order "
        "of operations is there no remainder?",
        {SHARED_HEADS: "dim**2 * (12 * model.num_kv_heads // model.num_heads)"},
        {FEED_FORWARD: "dim**2 * (18 * model.ffn_size // dim)"},
        {CORE: "dim**2 * (12 * seq_len // dim)"},
    ),
    Edit(
        "Your head does not depend on the width. What was the bracket, and the vocabulary in "
        "it, multiplied by?",
        {HEAD: "6 * model.vocab_size"},
    ),
    Edit(LOST_TWICE, {HEAD: "6 * model.vocab_size / dim"}),
    Edit(LOST_TWICE, {HEAD: "6 * model.vocab_size // dim"}),
    Edit(
        "12 ffn/dim is a block of two matrices. How many does a gated block have?",
        {FEED_FORWARD: "12 * dim * model.ffn_size"},
    ),
    Edit(
        "6 seq/dim is the causal half. How much of the square does the convention count?",
        {CORE: "6 * dim * seq_len"},
    ),
    Edit(
        "Your ratio of heads is inverted. Which number is smaller, that of query heads or of "
        "key-value heads?",
        {SHARED_HEADS: "12 * dim**2 * model.num_heads // model.num_kv_heads"},
    ),
    Edit(
        "Your core for one token grows with the square of the length. How many tokens does one "
        "token meet?",
        {CORE: "12 * dim * seq_len**2"},
    ),
    Edit(
        "That is a whole sequence. How many tokens is it?",
        {SUM: "seq_len * (model.num_layers * layer + head)"},
    ),
    Edit(
        "You count the forward pass of the head alone. What else does a training step do with it?",
        {HEAD: "2 * model.vocab_size * dim"},
    ),
    Edit("The head is missing. What turns hidden states into logits?", {HEAD: "0"}),
)

CHECK = Check(
    cases=repair_cases,
    judge=EqualTo(
        measured_training_flops_per_token,
        Symptom(ROUNDED_BY_A_FLOAT, measured_training_flops_per_token),  # right but for rounding
        *edited("u01-training-flops-per-token", EDITS),
    ),
    fallback="course_utils.formulas.training_flops.training_flops_per_token",
    answers=COUNTERS,
)
