"""Check of the bytes a Llama layer keeps, term by term."""

import random
from typing import Any

import torch

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
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


CHECK = Check(
    cases=llama_cases,
    judge=EqualTo(measured_llama_layer_bytes, *mistakes_of("u03-llama-layer-bytes")),
    fallback="course_utils.formulas.activations.llama_layer_bytes",
    answers=COUNTERS,
)
