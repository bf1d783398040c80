"""Check of a model's parameters, part by part."""

import random
from collections.abc import Callable
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.configs import ModelConfig
from course_utils.formulas import parameters as formula
from course_utils.reference import Transformer

GPT = {"is_gated": False, "has_biases": True, "is_tied": True}


def parameters_cases(seed: int) -> list[Case]:
    """GPT with and without learned positions; Llama tied and untied, with MHA, GQA and MQA.

    Biases occur in gated blocks too.
    """
    rng = random.Random(seed)
    cases: list[Case] = []
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for is_tied in (True, False):
            for _ in range(2):
                cases.append({"model": _sizes(rng, kv, group) | {"is_tied": is_tied}})
    grouped = _sizes(rng, 2, 3) | GPT | {"head_dim": 6}
    cases.append({"model": grouped})
    for num_positions in (0, rng.randint(5, 99), rng.randint(100, 999)):
        for kv in (1, rng.randint(2, 5)):
            sizes = _sizes(rng, kv, 1) | GPT
            cases.append({"model": sizes | {"num_positions": num_positions}})
    for kv in (1, rng.randint(2, 5)):
        cases.append({"model": _sizes(rng, kv, 2) | {"has_biases": True, "is_tied": False}})
    gpt_2 = _named(12, 768, 12, 12, 3072, 50257) | GPT | {"num_positions": 1024}
    llama = _named(16, 2048, 32, 8, 8192, 128256) | {"is_tied": True}
    return [*cases, {"model": gpt_2}, {"model": llama}]


def _sizes(rng: random.Random, kv: int, group: int) -> dict[str, Any]:
    hidden_size = kv * group * rng.choice((4, 8, 12))
    return _named(
        *(rng.randint(2, 4), hidden_size, kv * group, kv),
        *(rng.randrange(5, 99, 2), rng.randrange(11, 999, 2)),
    )


def _named(*sizes: int) -> dict[str, Any]:
    names = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "ffn_size", "vocab_size")
    return dict(zip(names, sizes, strict=True))


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


def parameters(model: ModelConfig) -> dict[str, int]:
    """The course's own answer, under the names that the exercise asks for."""
    parts = formula.parameters(model)
    parts["embedding_and_head"] = parts.pop("embedding") + parts.pop("head")
    return parts


def _part(name: str, wrong: Callable[[ModelConfig], int]) -> Callable[..., dict[str, int]]:
    """A mistake in one part, from a model."""
    return lambda model: {name: wrong(model_of(model))}


def _attention(model: ModelConfig, kv_heads: int, biases: int) -> int:
    h, d = model.hidden_size, model.head_dim
    return model.num_layers * (2 * h * model.num_heads * d + 2 * h * kv_heads * d + biases)


def _feed_forward(model: ModelConfig, matrices: int, biases: int) -> int:
    return model.num_layers * (matrices * model.hidden_size * model.ffn_size + biases)


def _norms(model: ModelConfig, count: int, per_number: int) -> int:
    return count * per_number * model.hidden_size


CHECK = Check(
    cases=parameters_cases,
    reference=parameters,
    judge=EqualTo(
        measured_parameters,
        Mistake(
            "You count one layer. How many are there?",
            lambda model: {
                part: size // model["num_layers"]
                for part, size in parameters(model_of(model)).items()
                if part in ("attention", "feed_forward")
            },
        ),
        Mistake(
            "You count keys and values as wide as queries. How many heads do they have?",
            _part(
                "attention",
                lambda m: _attention(
                    m, m.num_heads, m.has_biases * (3 * m.num_heads * m.head_dim + m.hidden_size)
                ),
            ),
        ),
        Mistake(
            "The biases of attention are missing where a model has them. Which of its four "
            "matrices has one?",
            _part("attention", lambda m: _attention(m, m.num_kv_heads, 0)),
        ),
        Mistake(
            "Three biases of attention are in your sum. Which of its four matrices have one?",
            _part(
                "attention",
                lambda m: _attention(
                    m,
                    m.num_kv_heads,
                    m.has_biases * (m.num_heads + 2 * m.num_kv_heads) * m.head_dim,
                ),
            ),
        ),
        Mistake(
            "The biases of the feed-forward block are missing where a model has them. How wide "
            "are the results of its two matrices?",
            _part("feed_forward", lambda m: _feed_forward(m, 3 if m.is_gated else 2, 0)),
        ),
        Mistake(
            "Gated blocks with biases have too few in your sum. Which of the three matrices gives "
            "how many numbers?",
            _part(
                "feed_forward",
                lambda m: _feed_forward(
                    m, 3 if m.is_gated else 2, m.has_biases * (m.ffn_size + m.hidden_size)
                ),
            ),
        ),
        Mistake(
            "Your feed-forward blocks have two matrices, all of them. What does `is_gated` say?",
            _part(
                "feed_forward",
                lambda m: _feed_forward(m, 2, m.has_biases * (m.ffn_size + m.hidden_size)),
            ),
        ),
        Mistake(
            "Your feed-forward blocks have three matrices, all of them. What does `is_gated` say?",
            _part(
                "feed_forward",
                lambda m: _feed_forward(m, 3, m.has_biases * (m.ffn_size + m.hidden_size)),
            ),
        ),
        Mistake(
            "You take f for 4 h. Which size says how wide the block is inside?",
            _part(
                "feed_forward",
                lambda m: (
                    m.num_layers
                    * (
                        (12 if m.is_gated else 8) * m.hidden_size**2
                        + m.has_biases * (m.ffn_size + m.hidden_size)
                    )
                ),
            ),
        ),
        Mistake(
            "The norm behind the last layer is missing. How many norms has the whole model?",
            _part("norms", lambda m: _norms(m, 2 * m.num_layers, 1 + m.has_biases)),
        ),
        Mistake(
            "You count one number per norm and width, also in a LayerNorm. What does it have "
            "beside its weight?",
            _part("norms", lambda m: _norms(m, 2 * m.num_layers + 1, 1)),
        ),
        Mistake(
            "You count one norm in a layer. What stands before each of its two blocks?",
            _part("norms", lambda m: _norms(m, m.num_layers + 1, 1 + m.has_biases)),
        ),
        Mistake(
            "Your head has a matrix of its own even where it is tied. How often is a shared "
            "matrix stored?",
            _part(
                "embedding_and_head",
                lambda m: (2 * m.vocab_size + m.num_positions) * m.hidden_size,
            ),
        ),
        Mistake(
            "Your head is always tied. What does `is_tied` say?",
            _part(
                "embedding_and_head",
                lambda m: (m.vocab_size + m.num_positions) * m.hidden_size,
            ),
        ),
        Mistake(
            "The learned positions are missing. In which table is a position looked up?",
            _part(
                "embedding_and_head",
                lambda m: (1 if m.is_tied else 2) * m.vocab_size * m.hidden_size,
            ),
        ),
        Mistake(
            "You count the head where `is_tied` says that it is shared, and leave it out where it "
            "is not. What does a tied model store once?",
            _part(
                "embedding_and_head",
                lambda m: (
                    (m.vocab_size * (2 if m.is_tied else 1) + m.num_positions) * m.hidden_size
                ),
            ),
        ),
    ),
)
