"""Checks of the whole model: its FLOPs, and the printed formula that has to be repaired."""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared_counts import LLAMA_1B, SMALLEST, counted_model
from course_utils.configs import ModelConfig
from course_utils.formulas import flops


def model_cases(seed: int) -> list[Case]:
    """Tied and untied heads; multi-head, grouped-query and multi-query attention; some batches."""
    rng = random.Random(seed)
    cases: list[Case] = [{"model": SMALLEST | {"is_tied": False}, "num_sequences": 1, "seq_len": 2}]
    for is_tied in (False, True):
        for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
            for num_sequences in (1, rng.randint(2, 5), rng.randint(2, 9)):
                head_dim = rng.choice((4, 8))
                model = {
                    "num_layers": rng.randint(1, 3),
                    "hidden_size": kv * group * head_dim,
                    "num_heads": kv * group,
                    "num_kv_heads": kv,
                    "ffn_size": rng.randrange(5, 99, 2),
                    "vocab_size": rng.randrange(11, 999, 2),
                    "is_tied": is_tied,
                }
                seq_len = rng.randrange(3, 99, 2)
                cases.append({"model": model, "num_sequences": num_sequences, "seq_len": seq_len})
    llama = LLAMA_1B | {"is_tied": True}
    real = [{"model": llama, "num_sequences": n, "seq_len": s} for n, s in ((1, 4096), (2, 1024))]
    return cases + real


def measured_model_flops(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    """The forward pass of the whole model, from token ids to logits, counted while it runs."""
    return counted_model(model, num_sequences, seq_len).forward_flops


def model_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> int:
    """The course's own answer, under the name that the exercise asks for."""
    return sum(flops.forward_flops(model, num_sequences, seq_len).values())


def _without(part: str) -> Callable[..., int]:
    def formula(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
        parts = flops.forward_flops(model_of(model), num_sequences, seq_len)
        return sum(parts.values()) - parts[part]

    return formula


def _changed(**changes: Callable[[dict[str, Any]], int]) -> Callable[..., int]:
    def formula(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
        changed = {name: make(model) for name, make in changes.items()}
        return model_flops(ModelConfig(**{**model, **changed}), num_sequences, seq_len)

    return formula


def _head_in_every_layer(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    parts = flops.forward_flops(model_of(model), num_sequences, seq_len)
    return sum(parts.values()) + (int(model["num_layers"]) - 1) * parts["head"]


def _batch_squared(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    return model_flops(model_of(model), 1, num_sequences * seq_len)


def _head_of_untied_models_only(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    without = _without("head")(model, num_sequences, seq_len)
    whole = model_flops(model_of(model), num_sequences, seq_len)
    return without if model["is_tied"] else whole


def _linear_part_of_one_sequence(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    whole = flops.forward_flops(model_of(model), num_sequences, seq_len)
    one = flops.forward_flops(model_of(model), 1, seq_len)
    return sum(one.values()) - one["attention"] + whole["attention"]


def _embedding_as_product(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    parts = flops.forward_flops(model_of(model), num_sequences, seq_len)
    return sum(parts.values()) + parts["head"]


MODEL_FLOPS = Check(
    cases=model_cases,
    reference=model_flops,
    judge=EqualTo(
        measured_model_flops,
        Mistake(
            "Your head comes and goes with `is_tied`. Are the logits of a tied model for free?",
            _head_of_untied_models_only,
        ),
        Mistake(
            "You count layers and head for one sequence, the attention core for all of them. How "
            "many tokens go through a matrix?",
            _linear_part_of_one_sequence,
        ),
        Mistake(
            "The output head is missing. How does a hidden state become logits over the "
            "vocabulary?",
            _without("head"),
        ),
        Mistake(
            "The output head stands in every layer. How often does a model compute logits?",
            _head_in_every_layer,
        ),
        Mistake(
            "You square the tokens of the whole batch. Does a token look at other sequences?",
            _batch_squared,
        ),
        Mistake(
            "The quadratic part is missing. What happens between queries and keys?",
            _without("attention"),
        ),
        Mistake(
            "You count keys and values as wide as queries. How many heads do they have?",
            _changed(num_kv_heads=lambda model: model["num_heads"]),
        ),
        Mistake(
            "The vocabulary is in your sum twice. Which tables with v rows are multiplied with, "
            "and which only looked up?",
            _embedding_as_product,
        ),
        Mistake(
            "That is one layer and the head. How many layers are there?",
            _changed(num_layers=lambda model: 1),
        ),
    ),
)


def measured_training_flops_per_token(model: dict[str, Any], seq_len: int) -> int:
    """A training pass of the whole model, counted while it runs, over its tokens."""
    return sum(counted_model(model, 1, seq_len)) // seq_len


def repair_cases(seed: int) -> list[Case]:
    """The models of the whole-model exercise, each with one length."""
    return [{"model": c["model"], "seq_len": c["seq_len"]} for c in model_cases(seed)]


def training_flops_per_token(model: ModelConfig, seq_len: int) -> int:
    """The course's own answer: three forward passes over their tokens."""
    return 3 * sum(flops.forward_flops(model, 1, seq_len).values()) // seq_len


def _printed(
    vocabulary_in_layers: bool, ffn: int = 18, seq: int = 12, ratio: str = "groups over heads"
) -> Callable[..., int]:
    def formula(model: dict[str, Any], seq_len: int) -> int:
        m = model_of(model)
        h, layers, v = m.hidden_size, m.num_layers, m.vocab_size
        shared = Fraction(m.num_kv_heads, m.num_heads)
        if ratio != "groups over heads":
            shared = 1 / shared
        inside = 12 + 12 * shared + Fraction(ffn * m.ffn_size, h) + Fraction(seq * seq_len, h)
        head = 6 * v * h * (layers if vocabulary_in_layers else 1)
        return int(layers * h * h * inside + head)

    return formula


def _with_head(model: dict[str, Any], seq_len: int, head: Any) -> Any:
    right = _printed(vocabulary_in_layers=False)(model, seq_len)
    return right - 6 * model["vocab_size"] * model["hidden_size"] + head


def _remainders_lost(model: dict[str, Any], seq_len: int) -> int:
    m = model_of(model)
    h, a, a_kv = m.hidden_size, m.num_heads, m.num_kv_heads
    inside = 12 + 12 * a_kv // a + 18 * m.ffn_size // h + 12 * seq_len // h
    return m.num_layers * h * h * inside + 6 * m.vocab_size * h


REPAIRED_FLOPS_PER_TOKEN = Check(
    cases=repair_cases,
    reference=training_flops_per_token,
    judge=EqualTo(
        measured_training_flops_per_token,
        Mistake(
            "The vocabulary still stands in every layer. How often does a model compute logits?",
            _printed(vocabulary_in_layers=True),
        ),
        Mistake(
            "Each // in the bracket throws a remainder away, which dim² then makes large. In "
            "which order of operations is there no remainder?",
            _remainders_lost,
        ),
        Mistake(
            "Your head has lost its width. By what was the bracket multiplied, of which the "
            "vocabulary was a part?",
            lambda model, seq_len: _with_head(model, seq_len, 6 * model["vocab_size"]),
        ),
        Mistake(
            "Your head has lost its width twice. By what was the bracket multiplied, of which the "
            "vocabulary was a part?",
            lambda model, seq_len: float(
                _with_head(model, seq_len, Fraction(6 * model["vocab_size"], model["hidden_size"]))
            ),
        ),
        Mistake(
            "12 ffn/dim is a block of two matrices. How many has a gated one?",
            _printed(vocabulary_in_layers=False, ffn=12),
        ),
        Mistake(
            "6 seq/dim is the causal half. Which attention does the convention count?",
            _printed(vocabulary_in_layers=False, seq=6),
        ),
        Mistake(
            "The ratio of heads stands upside down. Which is smaller, query or key-value heads?",
            _printed(vocabulary_in_layers=False, ratio="heads over groups"),
        ),
        Mistake(
            "The head is gone altogether. Who turns hidden states into logits?",
            lambda model, seq_len: (
                _printed(vocabulary_in_layers=False)(model, seq_len)
                - 6 * model["vocab_size"] * model["hidden_size"]
            ),
        ),
    ),
)
