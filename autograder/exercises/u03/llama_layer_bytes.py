"""Check of the bytes a Llama layer keeps, term by term."""

import random
from typing import Any

import torch

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, any_of, edited
from autograder.exercises.u03.shared.counters import COUNTERS, just_above
from course_utils.instruments import count_saved_bytes, fake_tensors
from course_utils.reference import Block
from course_utils.reference.dtypes import FLOATS

NAMES = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "ffn_size", "vocab_size")
ELEMENT_BYTES = (2, 4)


def llama_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query, multi-query; bf16 and fp32; the layer of Llama-3-8B.

    Then heads that are together wider or narrower than the model. The last counts are beyond a
    float.
    """
    rng = random.Random(seed)
    cases = [_case((2, 4, 2, 1, 3, 5), 1, 2, 2)]  # the worked one
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for num_sequences in (1, rng.randint(2, 5), rng.randint(6, 9)):
            for element_bytes in ELEMENT_BYTES:
                hidden_size = kv * group * rng.choice((4, 6, 8))
                sizes = (2, hidden_size, kv * group, kv, rng.randrange(5, 99, 2), 1)
                seq_len = rng.randrange(3, 99, 2)
                cases.append(_case(sizes, num_sequences, seq_len, element_bytes))
    llama_8b = (32, 4096, 32, 8, 14336, 128256)
    cases += [_case(llama_8b, 1, 64 * rng.randint(32, 128), each) for each in ELEMENT_BYTES]
    for head_dim in (4, 10):
        case = _case((2, 48, 6, 3, rng.randrange(5, 99, 2), 1), 2, rng.randrange(3, 99, 2), 2)
        cases.append(case | {"model": case["model"] | {"head_dim": head_dim}})
    huge = (2, 12 * just_above(26, rng), 6, 3, just_above(29, rng), 1)
    return [*cases, _case(huge, 3, just_above(25, rng), 2)]


def _case(sizes: tuple[int, ...], num_sequences: int, seq_len: int, element_bytes: int) -> Case:
    return {
        **{"model": dict(zip(NAMES, sizes, strict=True)), "num_sequences": num_sequences},
        **{"seq_len": seq_len, "element_bytes": element_bytes},
    }


def measured_llama_layer_bytes(
    model: dict[str, Any], num_sequences: int, seq_len: int, element_bytes: int
) -> dict[str, int]:
    """A real layer on fake tensors; one norm and the feed-forward block also alone."""
    sizes = model_of(model)
    dtype = FLOATS[element_bytes]
    with fake_tensors():
        block = Block(sizes, 0, "cpu", dtype)
        x = torch.empty(num_sequences, seq_len, sizes.hidden_size, dtype=dtype, requires_grad=True)
        whole, norm, feed_forward = (
            count_saved_bytes(lambda part=part: part(x), block).total_bytes  # type: ignore[misc]
            for part in (block, block.ffn_norm, block.ffn)
        )
    return {
        "norms": 2 * norm,
        "attention": whole - 2 * norm - feed_forward,
        "feed_forward": feed_forward,
    }


# Places of the model answer.
STATISTICS, LOG_SUM_EXP = "(stream + 4 * tokens)", "4 * tokens * model.num_heads"
QUERIES = "element_bytes * tokens * model.num_heads * model.head_dim"
KEYS = "element_bytes * tokens * model.num_kv_heads * model.head_dim"
ATTENTION, BLOCK = "stream + queries + keys + values + result + log_sum_exp", "stream + 4 * inner"


HEADS_AS_WIDE_AS_THE_MODEL = (
    "Your answer is right only where all query heads together are as wide as the model. How "
    "wide are they, given `num_heads` and `head_dim`?"
)


def _edit(hint: str, old: str, new: str) -> Edit:
    """A mistake in one of the three parts."""
    return Edit(hint, {old: new}, points=2.0)


EDITS = (
    _edit(
        "Your norms keep two numbers per token, as LayerNorm does. Does RMSNorm subtract a mean?",
        STATISTICS,
        "(stream + 8 * tokens)",
    ),
    _edit(
        "Your norms keep only their inputs. Which number per token would backward have to "
        "recompute?",
        STATISTICS,
        "stream",
    ),
    _edit(
        "Your norms' statistics are as wide as an activation. What do the rules say about their "
        "precision?",
        STATISTICS,
        "(stream + element_bytes * tokens)",
    ),
    _edit(
        "Your norms' statistics are those of one sequence. How many tokens are in the whole batch?",
        STATISTICS,
        "(stream + 4 * seq_len)",
    ),
    _edit(
        "You count one norm. How many does a layer have?",
        f"2 * {STATISTICS}",
        STATISTICS,
    ),
    *any_of(
        HEADS_AS_WIDE_AS_THE_MODEL,
        {QUERIES: "stream"},
        {KEYS: "stream * model.num_kv_heads // model.num_heads"},
        points=2.0,
    ),
    *(
        Edit(HEADS_AS_WIDE_AS_THE_MODEL, {ATTENTION: ATTENTION.replace(name, "stream")}, points=2.0)
        for name in ("queries", "result")
    ),
    _edit(
        "Your keys and values are as wide as queries. How many heads do they have?",
        KEYS,
        "queries",
    ),
    _edit(
        "Your keys and values have one head. How many does the model have for them?",
        KEYS,
        "element_bytes * tokens * model.head_dim",
    ),
    _edit(
        "You keep nothing of the softmax. Which one number per query and head lets backward "
        "recompute it?",
        LOG_SUM_EXP,
        "0",
    ),
    _edit(
        "Your log-sum-exp is one number per query. How many heads compute a softmax for it?",
        LOG_SUM_EXP,
        "4 * tokens",
    ),
    _edit(
        "Your log-sum-exp is one number per token and key-value head. Which heads compute a "
        "softmax?",
        LOG_SUM_EXP,
        "4 * tokens * model.num_kv_heads",
    ),
    _edit(
        "Your log-sum-exp is as wide as an activation. What do the rules say about its precision?",
        LOG_SUM_EXP,
        "element_bytes * tokens * model.num_heads",
    ),
    _edit(
        "Your log-sum-exp is that of one sequence. How many sequences are there?",
        LOG_SUM_EXP,
        "4 * seq_len * model.num_heads",
    ),
    _edit(
        "You keep all scores. What does fused attention keep instead?",
        LOG_SUM_EXP,
        "element_bytes * tokens * model.num_heads * seq_len",
    ),
    _edit(
        "The values are missing. Which three tensors does the core of attention read?",
        ATTENTION,
        "stream + queries + keys + result + log_sum_exp",
    ),
    _edit(
        "You count one tensor as wide as the queries too many. Which of yours are the same one?",
        ATTENTION,
        f"{ATTENTION} + result",
    ),
    _edit(
        "You keep queries and keys twice, rotated and not. Rotary positions keep nothing: which "
        "queries does attention read?",
        ATTENTION,
        f"{ATTENTION} + queries + keys",
    ),
    _edit(
        "One tensor as wide as the queries is missing. What does fused attention keep besides "
        "queries, keys and values?",
        ATTENTION,
        "stream + queries + keys + values + log_sum_exp",
    ),
    _edit(
        "The input of the projections is missing. Which tensor do the gradients of their "
        "weights contain?",
        ATTENTION,
        "queries + keys + values + result + log_sum_exp",
    ),
    _edit(
        "You count two tensors as wide as the stream too many. Which of yours are the same one?",
        ATTENTION,
        f"2 * stream + {ATTENTION}",
    ),
    _edit(
        "Your block keeps two inner tensors, as with GELU. What does the gate multiply, and "
        "what goes into SiLU?",
        BLOCK,
        "stream + 2 * inner",
    ),
    _edit(
        "Your block keeps three inner tensors, one too few. What goes into SiLU, what does the "
        "gate multiply, and what does the last matrix read?",
        BLOCK,
        "stream + 3 * inner",
    ),
    _edit(
        "Your block keeps five inner tensors, one too many. Which two are the same one?",
        BLOCK,
        "stream + 5 * inner",
    ),
    _edit(
        "Your feed-forward block always counts two bytes per number. What does `element_bytes` "
        "say?",
        BLOCK,
        "2 * tokens * (model.hidden_size + 4 * model.ffn_size)",
    ),
    _edit(
        "The input of the block is missing. Which tensor do the gradients of its first matrices "
        "contain?",
        BLOCK,
        "4 * inner",
    ),
    _edit(
        "Your block keeps one tensor as wide as the stream too many. What does the block read, "
        "and who keeps its result?",
        BLOCK,
        "2 * stream + 4 * inner",
    ),
    Edit(
        "You count all layers. How many does the exercise ask for?",
        {
            f'"norms": 2 * {STATISTICS}': f'"norms": model.num_layers * 2 * {STATISTICS}',
            ATTENTION: f"model.num_layers * ({ATTENTION})",
            BLOCK: f"model.num_layers * ({BLOCK})",
        },
    ),
)

CHECK = Check(
    cases=llama_cases,
    judge=EqualTo(measured_llama_layer_bytes, *edited("u03-llama-layer-bytes", EDITS)),
    fallback="course_utils.formulas.activations.llama_layer_bytes",
    answers=COUNTERS,
)
