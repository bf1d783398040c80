"""Check of the bytes a GPT layer keeps in any precision, with and without dropout."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u03.shared.counters import COUNTERS, just_above
from course_utils.configs import Kernels, gpt
from course_utils.instruments import count_saved_bytes
from course_utils.reference import Block
from course_utils.reference.dtypes import FLOATS

NAMES = ("seq_len", "hidden_size", "num_heads", "element_bytes", "has_dropout")


def element_cases(seed: int) -> list[Case]:
    """Two and four bytes, with and without dropout, one head and several, and beyond a float."""
    rng = random.Random(seed)
    kinds = [(e, has_dropout) for e in (2, 4) for has_dropout in (True, False)]
    sizes = [(rng.randrange(3, 13, 2), 2 * rng.randint(3, 9), 2)]
    for num_heads in (1, 2, rng.randint(3, 5), rng.randint(6, 9), rng.randint(10, 12)):
        sizes.append((rng.randrange(13, 99, 2), num_heads * rng.randint(3, 11), num_heads))
    sizes.append((just_above(27, rng), 3 * just_above(25, rng), 3))
    cases = [(3, 8, 2, 4, True), *((*each, *kind) for each in sizes for kind in kinds)]
    return [dict(zip(NAMES, each, strict=True)) for each in cases]


def measured_layer_bytes(
    seq_len: int, hidden_size: int, num_heads: int, element_bytes: int, has_dropout: bool
) -> int:
    """A real layer on the meta device, for one sequence."""
    dtype, dropout = FLOATS[element_bytes], 0.1 if has_dropout else 0.0
    kernels = Kernels(is_attention_fused=False, dropout_fraction=dropout)
    block = Block(gpt(hidden_size, num_heads), 0, "meta", dtype, kernels)
    x = torch.empty(1, seq_len, hidden_size, dtype=dtype, device="meta", requires_grad=True)
    return count_saved_bytes(lambda: block(x), block).total_bytes


# Places of the model answer.
NUMBERS, ALL_SCORES = "(2 + 5 + 9) * stream + scores", "num_heads * seq_len**2"
MASKS, STATISTICS = "masks = 2 * stream + scores", "2 * 2 * seq_len"
NO_MASKS, SECOND_SCORES = "masks = 0", "numbers += scores"
TOTAL = "element_bytes * numbers + masks + 4 * statistics"

WIDE_MASKS = "Your masks are as wide as the numbers. How many bytes does a mask take per number?"
WHERE_DROPPED = "Where are the layer's three dropouts?"
EDITS = (
    Edit(
        "In fp32 you double everything. Does a dropout mask get wider?",
        {MASKS: "masks = (2 * stream + scores) * element_bytes // 2"},
    ),
    Edit(
        "In fp32 you double everything. Which bytes are masks, and which are in fp32 already?",
        {
            MASKS: "masks = (2 * stream + scores) * element_bytes // 2",
            "4 * statistics": "2 * element_bytes * statistics",
        },
    ),
    Edit(WIDE_MASKS, {MASKS: "masks = (2 * stream + scores) * element_bytes"}),
    Edit(
        "Your masks take four bytes per number. How many bytes does a mask need?",
        {MASKS: "masks = (2 * stream + scores) * 4"},
    ),
    Edit(
        "Your masks take one bit per number. What does the unit say about dropout masks?",
        {MASKS: "masks = (2 * stream + scores) // 8"},
    ),
    Edit(
        "With dropout, all masks are missing. How does backward know which numbers were dropped?",
        {MASKS: "masks = 0 * stream"},
    ),
    Edit(
        f"With dropout, the mask of the scores is missing. {WHERE_DROPPED}",
        {MASKS: "masks = 2 * stream"},
    ),
    Edit(
        f"With dropout, the masks of the stream are missing. {WHERE_DROPPED}",
        {MASKS: "masks = scores"},
    ),
    Edit(
        f"With dropout, one mask of the stream is missing. {WHERE_DROPPED}",
        {MASKS: "masks = stream + scores"},
    ),
    Edit(
        "With dropout, you keep the softmax's numbers only once. Is what multiplies the values "
        "the softmax's own result?",
        {SECOND_SCORES: "numbers += 0"},
    ),
    Edit(
        "With dropout, you keep nothing more than without it. What do backward and the product "
        "with the values need from it?",
        {SECOND_SCORES: "numbers += 0", MASKS: "masks = 0 * stream"},
    ),
    Edit(
        "You leave out the mask and the result of the scores' dropout. Who needs each of them?",
        {SECOND_SCORES: "numbers += 0", MASKS: "masks = 2 * stream"},
    ),
    Edit(
        "With dropout, you keep two more copies of the stream. Does the addition after a "
        "dropout keep its inputs?",
        {SECOND_SCORES: "numbers += scores + 2 * stream"},
    ),
    Edit(
        "You keep masks even without dropout. Who needs them then?",
        {NO_MASKS: "masks = 2 * stream + scores # always"},
    ),
    Edit(
        "Without dropout, you keep the softmax's result twice. What makes the second copy "
        "differ from the first?",
        {NUMBERS: "(2 + 5 + 9) * stream + 2 * scores", SECOND_SCORES: "pass"},
    ),
    Edit(
        "You count one square of scores too many. Softmax keeps its result: does it need its "
        "input too?",
        {NUMBERS: "(2 + 5 + 9) * stream + 2 * scores"},
    ),
    Edit(
        "You keep masks and a second copy of the softmax's result even without dropout. What "
        "changes in the layer then?",
        {"if has_dropout": "if True"},
    ),
    Edit(
        "You have it backward: masks without dropout, none with it. What does `has_dropout` say?",
        {"if has_dropout": "if not has_dropout"},
    ),
    *(
        Edit(
            "Your norms' statistics change with the precision. Which precision are they always in?",
            {"4 * statistics": wide},
        )
        for wide in ("element_bytes * statistics", "2 * element_bytes * statistics")
    ),
    Edit(
        "The statistics of the norms are missing. Which two numbers does a norm keep per token?",
        {" + 4 * statistics": ""},
    ),
    Edit(
        "You have half of the statistics. Is a norm missing, one of its two numbers, or half of "
        "their width?",
        {STATISTICS: "2 * seq_len"},
    ),
    Edit(
        "Your scores are those of one head. How many rows of scores does a token have?",
        {ALL_SCORES: "seq_len**2"},
    ),
    Edit(
        "Your scores have one number per token and head. How many tokens does one token meet?",
        {ALL_SCORES: "num_heads * seq_len"},
    ),
    *(
        Edit(
            "That is the lecture's formula for every precision, with or without dropout. Which "
            "of its bytes are masks, and which are 16-bit numbers?",
            {TOTAL: f"34 * stream + 5 * scores{statistics}"},
        )
        for statistics in (" + 16 * seq_len", "")
    ),
    *(
        Edit(
            "That is the lecture's formula scaled with the precision, with or without dropout. "
            "Which of its bytes are masks, and do they get wider?",
            {TOTAL: f"element_bytes * (34 * stream + 5 * scores) // 2{statistics}"},
        )
        for statistics in (" + 16 * seq_len", "")
    ),
)

CHECK = Check(
    cases=element_cases,
    judge=EqualTo(measured_layer_bytes, *edited("u03-element-bytes", EDITS)),
    answers=COUNTERS,
)
