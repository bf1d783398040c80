"""The checks of unit 01: how much work is a transformer?"""

import bisect
import itertools
import json
import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from operator import attrgetter
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, named
from autograder.checking.judges import ROUNDED_BY_A_FLOAT
from autograder.checking.mistakes import Symptom
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import declares_check
from autograder.exercises.model_sizes import preset_sizes
from course_utils.configs import DEVICES, Experts, ModelConfig, device, preset
from course_utils.formulas.parameters import parameters
from course_utils.instruments import FlopCount, count_flops
from course_utils.reference import Block, Transformer
from course_utils.reference.experts import MixtureOfExperts
from course_utils.reference.layers import (
    FeedForward,
    GroupedAttention,
    MultiHeadLatentAttention,
    attend,
)

# === for several exercises
# Models for the checks of this unit, and their FLOPs as counted while they run.


# What counts FLOPs, and so answers every exercise of this unit.
COUNTERS = ("course_utils.instruments.flop_count", "torch.utils.flop_counter")
SMALL_HIDDEN_SIZE = 512


SMALLEST = {
    "num_layers": 2,
    "hidden_size": 4,
    "num_heads": 1,
    "num_kv_heads": 1,
    "ffn_size": 3,
    "vocab_size": 5,
}
LLAMA_1B = preset_sizes("Llama-3.2-1B")


def model_cases(seed: int) -> list[Case]:
    """Tied and untied heads; multi-head, grouped-query and multi-query attention; some batches.

    Then each size is changed by itself. The last count is beyond a float and beyond 64 bits, for
    one token too.
    """
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
    lengths = ((1, 64 * rng.randint(32, 96)), (2, 64 * rng.randint(8, 31)))
    real = [{"model": llama, "num_sequences": n, "seq_len": length} for n, length in lengths]
    beyond_64_bits = {
        "num_layers": 8,
        "hidden_size": 32769 * 62,
        "num_heads": 32769,
        "num_kv_heads": 10923,
        "ffn_size": just_above(38, rng),
        "vocab_size": 128256,
        "is_tied": True,
    }
    last = {"model": beyond_64_bits, "num_sequences": 1, "seq_len": 4097}
    return [*cases, *real, *_model_one_at_a_time(rng), last]


def _model_one_at_a_time(rng: random.Random) -> Iterator[Case]:
    batches = {"num_sequences": 2, "seq_len": 5}, {"num_sequences": 3, "seq_len": 7}
    models = (model | {"is_tied": False} for model in models_to_vary(rng))
    return one_at_a_time(*({"model": m} | b for m, b in zip(models, batches, strict=True)))


def models_to_vary(rng: random.Random) -> tuple[dict[str, int], dict[str, int]]:
    """Two models between which each size can be changed by itself; heads as wide as usual."""
    first = {"num_layers": 1, "hidden_size": 24, "num_heads": 4, "num_kv_heads": 2}
    last = {"num_layers": 2, "hidden_size": 48, "num_heads": 12, "num_kv_heads": 3}
    sizes = sorted(rng.sample(range(5, 99, 2), 4))
    return (
        first | {"ffn_size": sizes[0], "vocab_size": sizes[1]},
        last | {"ffn_size": sizes[2], "vocab_size": sizes[3]},
    )


def one_at_a_time(first: Case, last: Case) -> Iterator[Case]:
    """The way from one case to another, one size at a time.

    An answer that remembers results, but does not look at some size, is wrong right after.
    """
    yield (case := first)
    for name, value in last.items():
        for step in one_at_a_time(case[name], value) if isinstance(value, dict) else (value,):
            if step != case[name]:
                yield (case := case | {name: step})


def just_above(power: int, rng: random.Random) -> int:
    """An odd size a little larger than a power of two.

    A product of three is a little larger than a power of two, too. So the order of operations
    matters neither to what 64 bits keep of it nor to how a float32 rounds it.
    """
    return int(2**power + rng.randrange(1, 511, 2))


def with_own_head_dim(model: dict[str, Any], *, is_wider: bool) -> dict[str, Any]:
    """The same model with heads wider or narrower than ``hidden_size / num_heads``."""
    usual = model["hidden_size"] // model["num_heads"]
    return model | {"head_dim": usual + 6 if is_wider else usual - 2}


def meta(*shape: int) -> torch.Tensor:
    """A tensor without numbers, of a given shape."""
    return torch.empty(*shape, device="meta")


def one_layer(hidden_size: int, **sizes: Any) -> ModelConfig:
    """A model of one layer, of which only the named sizes matter."""
    others = {"num_layers": 1, "num_heads": 1, "ffn_size": 1, "vocab_size": 1}
    return ModelConfig(hidden_size=hidden_size, **{**others, **sizes})


def counted_core(sizes: ModelConfig, seq_len: int) -> int:
    """FLOPs of one layer's attention core for one sequence, counted while it runs."""
    q = meta(1, seq_len, sizes.num_heads, sizes.head_dim)
    kv = meta(1, seq_len, sizes.num_kv_heads, sizes.head_dim)
    return count_flops(lambda: attend(q, kv, kv)).forward_flops


def counted_model(model: dict[str, Any], num_sequences: int, seq_len: int) -> FlopCount:
    """FLOPs of a whole model, forward and backward, counted while it runs."""
    return _counted_model(json.dumps(model), num_sequences, seq_len)


@cache
def _counted_model(model: str, num_sequences: int, seq_len: int) -> FlopCount:
    """A small model runs on real tensors, which is faster; a large one on the meta device.

    Attention is materialised on both: flash attention would recompute the scores in backward.
    """
    sizes = model_of(json.loads(model))
    device = "cpu" if sizes.hidden_size < SMALL_HIDDEN_SIZE else "meta"
    built = Transformer(sizes, device=device)
    ids = torch.zeros(num_sequences, seq_len, dtype=torch.long, device=device)
    with sdpa_kernel(SDPBackend.MATH):
        return count_flops(lambda: built(ids))


# === u01-matmul-flops
# One matrix product, forward and backward.


def matmul_cases(seed: int) -> list[Case]:
    """Odd and unequal sizes; one row, column or inner entry; beyond a float and 64 bits."""
    rng = random.Random(seed)
    names = "rows", "inner", "columns"

    def size() -> int:
        return rng.randrange(3, 200, 2)

    square = size()
    sizes = [(2, 3, 5), (1, rng.randint(2, 9), 1), (square, square, square)]
    sizes += [(1, size(), size()), (size(), 1, size()), (size(), size(), 1)]
    sizes += [(size(), size(), size()) for _ in range(10)]
    sizes += [(just_above(21, rng), just_above(22, rng), just_above(22, rng))]
    sizes += [(rng.randint(1, 64) * 1024, 4096, 14336), (4096, 8192, rng.randint(2, 90_000))]
    cases = [named(names, each) for each in sizes]
    return [*cases, *one_at_a_time(dict.fromkeys(names, size()), dict.fromkeys(names, 2 * size()))]


@declares_check(
    "u01-matmul-flops",
    matmul_cases,
    fallback="course_utils.formulas.flops.matmul_flops",
    give_away=COUNTERS,
)
def measured_matmul_flops(rows: int, inner: int, columns: int) -> dict[str, int]:
    """FLOPs of a real product and its backward pass, counted on the meta device."""
    a = torch.empty(rows, inner, device="meta", requires_grad=True)
    b = torch.empty(inner, columns, device="meta", requires_grad=True)
    return count_flops(lambda: a @ b)._asdict()


# === u01-attention-flops
# The FLOPs of one layer's attention.


def attention_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query and multi-query attention; batches; odd lengths, one token.

    One case has 49 heads on one key head, since 49 * (1 / 49) is not 1 in floats. The two counts
    of the last case are beyond a float and 64 bits.
    """
    rng = random.Random(seed)
    first = {"num_sequences": 1, "seq_len": 3, "num_heads": 2, "num_kv_heads": 1, "head_dim": 4}
    cases = [first, first | {"seq_len": 1, "num_kv_heads": 2, "num_sequences": rng.randint(1, 40)}]
    for kind in ("multi-head", "grouped-query", "multi-query"):
        for num_sequences in (1, 1, rng.randint(2, 9), rng.randint(2, 9)):
            kv, group = rng.choice(((1, rng.randint(2, 9)), (rng.randint(2, 5), rng.randint(2, 5))))
            if kind == "multi-head":
                kv, group = kv * group, 1
            else:
                kv, group = (1, kv * group) if kind == "multi-query" else (2, group)
            sizes = (num_sequences, rng.randrange(5, 300, 2), kv * group, kv)
            cases.append(named(first, (*sizes, rng.choice((4, 6, 8)))))
    llama = named(first, (2, rng.randint(4, 64) * 64, 32, 8, 128))
    large = named(first, (rng.randint(1, 4), 8192, 64, 8, 128))
    forty_nine = named(first, (1, rng.randrange(5, 99, 2), 49, 1, 4))
    start = named(first, (2, rng.randrange(5, 99, 2), 12, 2, 4))
    end = named(first, (3, rng.randrange(101, 199, 2), 24, 3, 8))
    num_kv_heads = 513 + 2 * rng.randint(0, 1)
    beyond = (257, just_above(20, rng), 2 * num_kv_heads, num_kv_heads, 130)
    return [
        *(*cases, llama, large, forty_nine),
        *one_at_a_time(start, end),
        named(first, beyond),
    ]


@declares_check(
    "u01-attention-flops",
    attention_cases,
    fallback="course_utils.formulas.flops.attention_flops",
    give_away=COUNTERS,
)
def measured_attention_flops(
    num_sequences: int, seq_len: int, num_heads: int, num_kv_heads: int, head_dim: int
) -> dict[str, int]:
    """The whole attention module and its core alone, counted on the meta device."""
    model = one_layer(num_heads * head_dim, num_heads=num_heads, num_kv_heads=num_kv_heads)
    attention = GroupedAttention(model, "meta")
    whole = count_flops(lambda: attention(meta(num_sequences, seq_len, model.hidden_size)))
    q = meta(num_sequences, seq_len, num_heads, head_dim)
    kv = meta(num_sequences, seq_len, num_kv_heads, head_dim)
    core = count_flops(lambda: attend(q, kv, kv)).forward_flops
    return {"projection_flops": whole.forward_flops - core, "core_flops": core}


# === u01-gated-mlp-flops
# The FLOPs of a gated feed-forward block.


def mlp_cases(seed: int) -> list[Case]:
    """One token and many; square and odd sizes; real layers; beyond a float and 64 bits."""
    rng = random.Random(seed)
    names = "num_tokens", "hidden_size", "ffn_size"
    sizes = [(1, 2, 3), (1, rng.randrange(3, 99, 2), rng.randrange(3, 99, 2))]
    num_tokens, width = rng.randint(2, 99), rng.randint(2, 99)
    sizes.append((num_tokens, width, width))
    sizes += [(rng.randint(2, 99), rng.randint(2, 99), rng.randint(2, 99)) for _ in range(13)]
    sizes += [(rng.randint(1, 99) * 64, 4096, 14336), (rng.randint(1, 64) * 1024, 2048, 8192)]
    sizes += [(just_above(21, rng), just_above(22, rng), just_above(22, rng))]
    cases = [named(names, each) for each in sizes]
    first, last = rng.randint(2, 49), rng.randint(50, 99)
    return [*cases, *one_at_a_time(dict.fromkeys(names, first), dict.fromkeys(names, last))]


@declares_check(
    "u01-gated-mlp-flops",
    mlp_cases,
    fallback="course_utils.formulas.flops.gated_mlp_flops",
    give_away=COUNTERS,
)
def measured_mlp_flops(num_tokens: int, hidden_size: int, ffn_size: int) -> int:
    """The gated block, counted on the meta device."""
    model = one_layer(hidden_size, ffn_size=ffn_size)
    block = FeedForward(model, ffn_size, "meta")
    return count_flops(lambda: block(meta(num_tokens, hidden_size))).forward_flops


# === u01-model-flops
# The FLOPs of a whole model.


def whole_model_cases(seed: int) -> list[Case]:
    """The models of this unit, every third of the small ones with a head width of its own.

    The two cases before the last are the same but for the width of a head.
    """
    cases = model_cases(seed)
    for n in range(3, 19, 3):
        cases[n]["model"] = with_own_head_dim(cases[n]["model"], is_wider=n % 2 == 0)
    narrower = cases[-2] | {"model": with_own_head_dim(cases[-2]["model"], is_wider=False)}
    return [*cases[:-1], narrower, cases[-1]]


@declares_check(
    "u01-model-flops",
    whole_model_cases,
    fallback="course_utils.formulas.flops.model_flops",
    give_away=COUNTERS,
)
def measured_model_flops(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    """The forward pass of the whole model, from token ids to logits, counted while it runs."""
    return counted_model(model, num_sequences, seq_len).forward_flops


# === u01-stack-training-flops
# The training FLOPs of a stack with frozen layers.


def stack_cases(seed: int) -> list[Case]:
    """Every choice of trained layers among up to four, and one long stack.

    The last count is beyond a float and 64 bits.
    """
    rng = random.Random(seed)
    worked = {"num_tokens": 2, "widths": [3, 5, 7], "is_trained": [True, True]}
    frozen = {"num_tokens": rng.randint(2, 50), "is_trained": [True, False]}
    cases: list[Case] = [worked, worked | frozen]
    choices = [[*each] for n in (1, 2, 3, 4) for each in itertools.product((True, False), repeat=n)]
    choices += [[False, False, True, False, False, False]]
    for is_trained in choices:
        widths = [rng.randrange(3, 60, 2) for _ in range(len(is_trained) + 1)]
        num_tokens = rng.randint(1, 50)
        cases.append({"num_tokens": num_tokens, "widths": widths, "is_trained": is_trained})
    start = {"num_tokens": 3, "widths": [9, rng.randrange(11, 99, 2), 5], "is_trained": [True] * 2}
    end = {"num_tokens": 4, "widths": [5, rng.randrange(11, 99, 2), 9], "is_trained": [False, True]}
    widths = [just_above(22, rng) for _ in range(3)]
    beyond = {"num_tokens": just_above(21, rng), "widths": widths, "is_trained": [True, True]}
    return [*cases, *one_at_a_time(start, end), beyond]


@declares_check("u01-stack-training-flops", stack_cases, give_away=COUNTERS)
def measured_stack_flops(num_tokens: int, widths: list[int], is_trained: list[bool]) -> int:
    """Linear layers on data that requires no gradient, counted on the meta device."""
    layers = torch.nn.Sequential(
        *(
            torch.nn.Linear(inner, outer, bias=False, device="meta").requires_grad_(trained)
            for inner, outer, trained in zip(widths[:-1], widths[1:], is_trained, strict=True)
        )
    )
    return sum(count_flops(lambda: layers(meta(num_tokens, widths[0]))))


# === u01-crossover-length
# The length at which attention costs as much as the rest.


def crossover_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query and multi-query attention; narrow and wide heads and blocks.

    Some meet at a whole length where floats come out above it; one meets beyond 10**7 tokens, one
    less than a thousandth of a token behind a whole length.
    """
    rng = random.Random(seed)
    cases: list[Case] = [{"model": SMALLEST}]
    # 9.8 and 9.29 tokens: the nearest whole length is the next one, and the one before.
    for head_dim in (10, 14):
        others = {"num_layers": rng.randint(2, 50), "vocab_size": rng.randint(5, 999)}
        cases.append({"model": SMALLEST | others | {"head_dim": head_dim}})
    for kv, group in ((4, 1), (8, 1), (2, 4), (3, 2), (1, 8), (1, 6)):
        for ffn_ratio in (1, 2.5, 4):
            hidden_size = kv * group * 8 * rng.randint(1, 9)
            model = {
                "num_layers": rng.randint(1, 9),
                "hidden_size": hidden_size,
                "num_heads": kv * group,
                "num_kv_heads": kv,
                "ffn_size": int(hidden_size * ffn_ratio) + rng.choice((1, 3)),
                "vocab_size": rng.randint(10, 999),
            }
            if ffn_ratio == 2.5:
                model = with_own_head_dim(model, is_wider=group > 1)
            cases.append({"model": model})
    for name in ("Llama-3.2-1B", "Llama-3-8B", "Llama-3-70B"):
        cases.append({"model": preset_sizes(name) | {"num_layers": rng.randint(4, 99)}})
    one_narrow_head = {"num_heads": 1, "num_kv_heads": 1, "head_dim": 64}
    far = {"hidden_size": 16384, "ffn_size": 32768 + rng.randrange(1, 99, 2)}
    cases.append({"model": SMALLEST | one_narrow_head | far})
    # With a * d = 4,096 they meet at 4,097 (2 + 3 k) + 4,097 * 6 / 8,192 tokens, and the last
    # part is 3.0007.
    hardly_more = {"hidden_size": 4097, "ffn_size": 8192 * rng.randint(1, 3) + 2}
    heads = {"num_heads": 32, "num_kv_heads": 32, "head_dim": 128}
    cases.append({"model": SMALLEST | heads | hardly_more})
    start, end = models_to_vary(rng)
    varied = one_at_a_time({"model": start | {"head_dim": 8}}, {"model": end | {"head_dim": 10}})
    return [*cases, *({"model": SMALLEST | each} for each in _ties(rng)), *varied]


def _ties(rng: random.Random) -> Iterator[dict[str, int]]:
    """Sizes that meet at a whole length, which floats miss however the formula is written.

    Sizes times a power of two are rounded in the same places.
    """
    # The lengths meet at h (2 d (a + a_kv) + 3 f) / (2 a d): 745 * 864 / 720 = 894 tokens, and
    # 596 * 630 / 72 = 5,215.
    for heads, hidden_size, ffn_size in (((10, 1, 36), 745, 24), ((3, 1, 12), 596, 178)):
        times = 2 ** rng.randint(0, 4)
        yield {
            **named(("num_heads", "num_kv_heads", "head_dim"), heads),
            "hidden_size": times * hidden_size,
            "ffn_size": ffn_size,
        }


@declares_check(
    "u01-crossover-length",
    crossover_cases,
    fallback="course_utils.formulas.flops.crossover_length",
    give_away=COUNTERS,
)
def searched_crossover(model: dict[str, Any]) -> int:
    """The same length by bisection, from FLOPs counted for one token; checked at the result.

    Raises:
        RuntimeError: If the counted core does not grow with the square of the length.
    """
    sizes = model_of(model)
    core = counted_core(sizes, 1)
    block = Block(sizes, 0, "meta")
    rest = count_flops(lambda: block(meta(1, 1, sizes.hidden_size))).forward_flops - core
    # bisect gives a place in the range, and the range begins with a length of 1.
    found = 1 + bisect.bisect_left(range(1, 2**40), True, key=lambda s: core * s * s >= rest * s)
    if counted_core(sizes, found) != core * found * found:
        raise RuntimeError(f"the attention of {model} does not grow with the square of its length")
    return found


# === u01-training-flops-per-token
# The repaired formula for the training FLOPs of one token.


def repair_cases(seed: int) -> list[Case]:
    """The models of this unit, and one in which divisions leave a remainder.

    Its head's parameters are no multiple of its 7 layers, and 12 is none of its 5 queries per key.
    """
    rng = random.Random(seed)
    seven_layers = {
        "num_layers": 7,
        "hidden_size": 40,
        "num_heads": 10,
        "num_kv_heads": 2,
        "ffn_size": rng.randrange(5, 99, 2),
        "vocab_size": 7 * rng.randint(9, 99) + 1,
        "is_tied": False,
    }
    cases = [{"model": c["model"], "seq_len": c["seq_len"]} for c in model_cases(seed)]
    telling = (case for n, case in enumerate(cases) if case not in cases[:n])
    return [*telling, {"model": seven_layers, "seq_len": rng.randrange(3, 99, 2)}]


def measured_training_flops_per_token(model: dict[str, Any], seq_len: int) -> int:
    """Counted FLOPs of a forward and a backward pass, divided by the tokens."""
    return sum(counted_model(model, 1, seq_len)) // seq_len


declares_check(
    "u01-training-flops-per-token",
    repair_cases,
    first_symptoms=(Symptom(ROUNDED_BY_A_FLOAT, measured_training_flops_per_token),),
    fallback="course_utils.formulas.training_flops.training_flops_per_token",
    give_away=COUNTERS,
)(measured_training_flops_per_token)


# === u01-utilisation
# One run's MFU under four conventions.


def utilisation_cases(seed: int) -> list[Case]:
    """Every device; tied and untied heads; all kinds and widths of heads; a real model."""
    rng = random.Random(seed)
    worked, *others = model_cases(seed)[:19]
    cases = [_run(worked["model"], worked["seq_len"], 10**10, "A100-80")]
    for n, case in enumerate(others[::2]):
        own = with_own_head_dim(case["model"], is_wider=n % 4 == 1)
        model = own if n % 2 else case["model"]
        rate, hardware = rng.randint(10_000, 60_000), list(DEVICES)[n % len(DEVICES)]
        cases.append(_run(model, case["seq_len"], rate, hardware))
    start, end = (model | {"is_tied": True, "head_dim": 8} for model in models_to_vary(rng))
    end |= {"head_dim": 10, "is_tied": False}
    fast, slow = _run(start, 9, 10**6, "A100-80"), _run(end, 7, 1, "H100-SXM")
    llama = _run(LLAMA_1B | {"is_tied": True}, 4096, rng.randint(10_000, 60_000), "H100-SXM")
    return [*map(_with_its_parameters, [*cases, *one_at_a_time(fast, slow), llama])]


def _run(model: dict[str, Any], seq_len: int, tokens_per_second: int, hardware: str) -> Case:
    return {
        "model": model,
        "num_params": 0,
        "seq_len": seq_len,
        "tokens_per_second": tokens_per_second,
        "hardware": hardware,
    }


def _with_its_parameters(case: Case) -> Case:
    return case | {"num_params": sum(parameters(model_of(case["model"])).values())}


@declares_check(
    "u01-utilisation",
    utilisation_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.utilisation.utilisation_by_convention",
    give_away=COUNTERS,
)
def measured_utilisation(
    model: dict[str, Any], num_params: int, seq_len: int, tokens_per_second: int, hardware: str
) -> dict[str, float]:
    """FLOPs per token counted while model and core run; parameters counted tensor by tensor."""
    counted = sum(counted_model(model, 1, seq_len)) // seq_len
    sizes = model_of(model)
    # Backward costs twice as much as forward, hence the 3. The count is of the full square, of
    # which a causal mask leaves half.
    core = 3 * sizes.num_layers * counted_core(sizes, seq_len) // seq_len
    built = sum(weight.numel() for weight in Transformer(sizes, device="meta").parameters())
    if built != num_params:
        raise RuntimeError(f"the model has {built:,} parameters; the case says {num_params:,}")
    flops_per_token = {
        "counted": counted,
        "causal": counted - core // 2,
        "six_n": 6 * built,
        "six_n_and_attention": 6 * built + core,
    }
    peak = device(hardware).dense_flops_per_second("bf16")
    return {name: each * tokens_per_second / peak for name, each in flops_per_token.items()}


# === u01-budget-ratio
# The FLOPs of longer sequences on a fixed budget of tokens.


def budget_cases(seed: int) -> list[Case]:
    """Longer and shorter sequences; shared and unshared heads, narrow ones and wide ones."""
    rng = random.Random(seed)
    cases: list[Case] = [_budget_ratio_case(SMALLEST, 2, 4)]
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for factor in (2, 4, rng.randint(5, 9)):
            for is_longer in (True, False):
                short = rng.randint(5, 40)
                lengths = (short, short * factor)[:: 1 if is_longer else -1]
                model = {
                    "num_layers": rng.randint(2, 4),
                    "hidden_size": kv * group * 8,
                    "num_heads": kv * group,
                    "num_kv_heads": kv,
                    "ffn_size": rng.randint(8, 99),
                    "vocab_size": rng.randint(50, 999),
                }
                if factor == 4:
                    model = with_own_head_dim(model, is_wider=is_longer)
                cases.append(_budget_ratio_case(model, *lengths))
    start, end = (
        model | {"head_dim": d} for model, d in zip(models_to_vary(rng), (8, 10), strict=True)
    )
    varied = one_at_a_time(_budget_ratio_case(start, 3, 8), _budget_ratio_case(end, 5, 13))
    short, long = 64 * rng.randint(16, 64), 64 * rng.randint(65, 256)
    return [
        *cases,
        *varied,
        _budget_ratio_case(LLAMA_1B, short, long),
        _budget_ratio_case(LLAMA_1B, long, short),
    ]


def _budget_ratio_case(model: dict[str, Any], old_seq_len: int, new_seq_len: int) -> Case:
    return {"model": model, "old_seq_len": old_seq_len, "new_seq_len": new_seq_len}


@declares_check(
    "u01-budget-ratio",
    budget_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.training_flops.budget_ratio",
    give_away=COUNTERS,
)
def measured_budget_ratio(
    model: dict[str, Any], old_seq_len: int, new_seq_len: int
) -> dict[str, float]:
    """Forward and backward passes of one sequence of either length, counted while they run."""
    old, new = (sum(counted_model(model, 1, s)) for s in (old_seq_len, new_seq_len))
    per_sequence = Fraction(new, old)
    return {
        "per_sequence": float(per_sequence),
        "whole_budget": float(per_sequence * Fraction(old_seq_len, new_seq_len)),
    }


# === u01-latent-attention-flops
# The FLOPs of multi-head latent attention.


LATENT_ATTENTION_FLOPS_NAMES = (
    "q_rank",
    "kv_rank",
    "nope_head_dim",
    "rope_head_dim",
    "value_head_dim",
)


def latent_cases(seed: int) -> list[Case]:
    """One head and many, one sequence and several, values narrower and wider than keys.

    Then each size is changed by itself. The two counts of the last case are beyond a float and 64
    bits.
    """
    rng = random.Random(seed)
    cases: list[Case] = [_latent_attention_flops_case((2, 8), (3, 5, 4, 2, 3), (1, 2))]
    for num_heads in (1, rng.randint(2, 9), rng.randint(10, 16)):
        for value in (rng.randint(3, 9), rng.randint(30, 40)):
            for num_sequences in (1, rng.randint(2, 4), rng.randint(5, 9)):
                ranks = rng.randint(2, 15), rng.randint(2, 15)
                widths = rng.randint(10, 15), 2 * rng.randint(1, 7), value
                hidden_size = num_heads * rng.randint(17, 41)
                batch = num_sequences, rng.randrange(3, 199, 2)
                cases.append(
                    _latent_attention_flops_case((num_heads, hidden_size), (*ranks, *widths), batch)
                )
    deepseek_v3 = preset("DeepSeek-V3")
    published = attrgetter(*LATENT_ATTENTION_FLOPS_NAMES)(deepseek_v3.latent_attention)
    four = rng.sample(range(2, 16), 4)
    start = _latent_attention_flops_case((2, 24), (*four[:2], 5, 4, 3), (2, 9))
    end = _latent_attention_flops_case((3, 48), (*four[2:], 7, 6, 8), (3, 11))
    beyond = _latent_attention_flops_case(
        (1026, 1026 * 1025), (1537, 512, 127, 64, 128), (257, just_above(20, rng))
    )
    heads = deepseek_v3.num_heads, deepseek_v3.hidden_size
    real = _latent_attention_flops_case(heads, published, (rng.randint(1, 3), 4096))
    return [*cases, real, *one_at_a_time(start, end), beyond]


def _latent_attention_flops_case(
    heads: tuple[int, int], latent: tuple[int, ...], batch: tuple[int, int]
) -> Case:
    """One layer: heads and width; the sizes of `NAMES`; sequences and their length."""
    model = {
        "num_layers": 1,
        "hidden_size": heads[1],
        "num_heads": heads[0],
        "ffn_size": 1,
        "vocab_size": 1,
        "latent_attention": named(LATENT_ATTENTION_FLOPS_NAMES, latent),
    }
    return {"model": model, "num_sequences": batch[0], "seq_len": batch[1]}


@declares_check(
    "u01-latent-attention-flops",
    latent_cases,
    fallback="course_utils.formulas.designs.latent_attention_flops",
    give_away=(*COUNTERS, "course_utils.reference.layers.MultiHeadLatentAttention"),
)
def measured_latent_flops(
    model: dict[str, Any], num_sequences: int, seq_len: int
) -> dict[str, int]:
    """The whole attention module and its core alone, counted on the meta device."""
    config = model_of(model)
    sizes = config.latent_attention
    assert sizes is not None
    attention = MultiHeadLatentAttention(config, sizes, "meta")
    whole = count_flops(lambda: attention(meta(num_sequences, seq_len, config.hidden_size)))
    heads = (num_sequences, seq_len, config.num_heads)
    q = k = meta(*heads, sizes.nope_head_dim + sizes.rope_head_dim)
    v = meta(*heads, sizes.value_head_dim)
    core = count_flops(lambda: attend(q, k, v)).forward_flops
    return {"projection_flops": whole.forward_flops - core, "core_flops": core}


# === u01-expert-parameters
# The total and active parameters of a mixture of experts.


EXPERT_PARAMETERS_NAMES = (
    "hidden_size",
    "num_experts",
    "experts_per_token",
    "expert_ffn_size",
    "num_shared_experts",
)


def expert_cases(seed: int) -> list[Case]:
    """With and without shared experts; one expert for a token, several, all; published layers.

    The two counts of the last case are beyond a float and beyond what an int64 holds.
    """
    rng = random.Random(seed)
    sizes = [(4, 3, 1, 5, 0), (4, 3, 2, rng.randrange(5, 99, 2), 1)]
    for per_token in (1, 2, rng.randint(3, 8)):
        for shared in (0, 0, 0, 1, rng.randint(2, 3), rng.randint(2, 3)):
            num_experts = per_token + rng.randint(1, 56)
            width, inner = rng.randint(5, 99), rng.randrange(5, 99, 2)
            sizes.append((width, num_experts, per_token, inner, shared))
    sizes += [
        (4096, 8, 2, 64 * rng.randint(99, 300), 0),
        (7168, 256, 8, 64 * rng.randint(20, 60), 1),
    ]
    num_experts = rng.randint(2, 9)
    sizes += [
        (rng.randint(5, 99), 1, 1, 7, 0),
        (rng.randint(5, 99), num_experts, num_experts, 7, 1),
    ]
    beyond = (just_above(27, rng), 8, 7, 15 * just_above(27, rng), 8)
    start, end = (16, 9, 2, rng.randint(5, 49), 1), (8, 12, 3, rng.randint(50, 99), 2)
    cases = [named(EXPERT_PARAMETERS_NAMES, each) for each in (*sizes, beyond, start, end)]
    return [*cases[:-2], *one_at_a_time(*cases[-2:])]


@declares_check(
    "u01-expert-parameters",
    expert_cases,
    fallback="course_utils.formulas.designs.expert_parameters",
    give_away=(*COUNTERS, "course_utils.reference.experts.MixtureOfExperts"),
)
def measured_expert_parameters(
    hidden_size: int,
    num_experts: int,
    experts_per_token: int,
    expert_ffn_size: int,
    num_shared_experts: int,
) -> dict[str, int]:
    """The numbers in the layer's tensors, and half of the FLOPs of one token."""
    sizes = Experts(
        num_experts=num_experts,
        experts_per_token=experts_per_token,
        expert_ffn_size=expert_ffn_size,
        num_shared_experts=num_shared_experts,
    )
    model = one_layer(hidden_size, experts=sizes)
    layer = MixtureOfExperts(model, sizes, "meta")
    num_tokens = num_experts  # so that every expert gets whole tokens
    counted = count_flops(lambda: layer(meta(1, num_tokens, hidden_size))).forward_flops
    return {
        "total_parameters": sum(weight.numel() for weight in layer.parameters()),
        # Each parameter that a token uses costs one multiplication and one addition.
        "active_parameters": counted // (2 * num_tokens),
    }
