"""Check of the FLOPs of a whole model."""

from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, any_of, edited
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    WIDTH_FOR_HIDDEN_SIZE,
    counted_model,
    hidden_size_for_width,
    model_cases,
    with_own_head_dim,
)


def whole_model_cases(seed: int) -> list[Case]:
    """The models of this unit, every third of the small ones with a head width of its own.

    Two cases differ in nothing else.
    """
    cases = model_cases(seed)
    for n in range(3, 19, 3):
        cases[n]["model"] = with_own_head_dim(cases[n]["model"], is_wider=n % 2 == 0)
    narrower = cases[-2] | {"model": with_own_head_dim(cases[-2]["model"], is_wider=False)}
    return [*cases[:-1], narrower, cases[-1]]


def measured_model_flops(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    """The forward pass of the whole model, from token ids to logits, counted while it runs."""
    return counted_model(model, num_sequences, seq_len).forward_flops


LAYERS_AND_HEAD = "model.num_layers * (projections + core + feed_forward) + head"
EDITS = (
    Edit(
        "That is the count for one token. How many go through the model?",
        {LAYERS_AND_HEAD: f"({LAYERS_AND_HEAD}) // tokens"},
    ),
    Edit(
        "Your feed-forward block has two matrices. How many does a gated block have?",
        {"6 * tokens": "4 * tokens"},
    ),
    Edit(
        "You drop the head when `is_tied` is set. Are the logits of a tied model free?",
        {" + head": " + (0 if model.is_tied else head)"},
    ),
    *any_of(
        "Part of your sum does not grow with the number of sequences. Is it the projections, "
        "the core, the feed-forward block or the head?",
        {"4 * tokens": "4 * seq_len"},
        {"4 * num_sequences": "4"},
        {"6 * tokens": "6 * seq_len"},
        {"2 * tokens": "2 * seq_len"},
    ),
    Edit(
        WIDTH_FOR_HIDDEN_SIZE,
        {"4 * tokens * model.hidden_size * (width": "4 * tokens * width * (width"},
    ),
    *hidden_size_for_width({"num_sequences * width": "num_sequences * model.hidden_size"}),
    Edit(
        "You count logits for one token of each sequence, as in generation. Which tokens get "
        "logits in this forward pass?",
        {"2 * tokens": "2 * num_sequences"},
    ),
    Edit(
        "The output head is missing. How does a hidden state become logits over the vocabulary?",
        {" + head": ""},
    ),
    Edit(
        "You count the output head in every layer. How often does a model compute logits?",
        {" + feed_forward) + head": " + feed_forward + head)"},
    ),
    Edit(
        "You square the tokens of the whole batch. Does a token look at other sequences?",
        {"num_sequences * width * seq_len**2": "width * tokens**2"},
    ),
    Edit(
        "The quadratic part is missing. What happens between queries and keys?",
        {" + core": ""},
    ),
    Edit(
        "Your keys and values are as wide as the queries. How many heads do they have?",
        {"model.num_kv_heads": "model.num_heads"},
    ),
    Edit(
        "You count the vocabulary twice. Which tables with v rows are multiplied, and which "
        "only looked up?",
        {" + head": " + 2 * head"},
    ),
    Edit(
        "That is one layer and the head. How many layers are there?",
        {"model.num_layers * (": "("},
    ),
)

CHECK = Check(
    cases=whole_model_cases,
    judge=EqualTo(measured_model_flops, *edited("u01-model-flops", EDITS)),
    fallback="course_utils.formulas.flops.model_flops",
    answers=COUNTERS,
)
