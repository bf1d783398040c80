"""Check of the repaired formula for the training FLOPs of one token."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared.counts import counted_model, model_cases
from course_utils.configs import ModelConfig
from course_utils.formulas import flops


def measured_training_flops_per_token(model: dict[str, Any], seq_len: int) -> int:
    """Counted FLOPs of a forward and a backward pass, divided by the tokens."""
    return sum(counted_model(model, 1, seq_len)) // seq_len


def repair_cases(seed: int) -> list[Case]:
    """The models of the whole-model exercise, each with one length."""
    return [{"model": c["model"], "seq_len": c["seq_len"]} for c in model_cases(seed)]


def training_flops_per_token(model: ModelConfig, seq_len: int) -> int:
    """The course's own answer: three forward passes, divided by the tokens."""
    return 3 * sum(flops.forward_flops(model, 1, seq_len).values()) // seq_len


def _printed(
    vocabulary_in_layers: bool, ffn: int = 18, seq: int = 12, inverts_ratio: bool = False
) -> Callable[..., int]:
    """The slide's formula; right only with the vocabulary outside the layers."""

    def formula(model: dict[str, Any], seq_len: int) -> int:
        m = model_of(model)
        h, layers, v = m.hidden_size, m.num_layers, m.vocab_size
        shared = Fraction(m.num_kv_heads, m.num_heads)
        ratio = 1 / shared if inverts_ratio else shared
        inside = 12 + 12 * ratio + Fraction(ffn * m.ffn_size, h) + Fraction(seq * seq_len, h)
        head = 6 * v * h * (layers if vocabulary_in_layers else 1)
        return int(layers * h * h * inside + head)

    return formula


def _with_head(model: dict[str, Any], seq_len: int, head: Any) -> Any:
    """The right number with another term for the head."""
    right = _printed(vocabulary_in_layers=False)(model, seq_len)
    return right - 6 * model["vocab_size"] * model["hidden_size"] + head


def _remainders_lost(model: dict[str, Any], seq_len: int) -> int:
    """Each quotient in the bracket is rounded down."""
    m = model_of(model)
    h, a, a_kv = m.hidden_size, m.num_heads, m.num_kv_heads
    inside = 12 + 12 * a_kv // a + 18 * m.ffn_size // h + 12 * seq_len // h
    return m.num_layers * h * h * inside + 6 * m.vocab_size * h


CHECK = Check(
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
            _printed(vocabulary_in_layers=False, inverts_ratio=True),
        ),
        Mistake(
            "The head is gone altogether. Who turns hidden states into logits?",
            lambda model, seq_len: _with_head(model, seq_len, 0),
        ),
    ),
)
