"""The checks of unit 03: where does the memory go?"""

import json
import random
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, named
from autograder.checking.mistakes import Symptom
from autograder.exercises.declaring import declares_check
from autograder.exercises.model_answers import model_answer
from autograder.exercises.model_sizes import SIZE_NAMES, preset_sizes
from autograder.observers.kept import gradients_of
from autograder.observers.u03 import fused_gate, lost_bytes, microscope
from autograder.observers.u03.fused_gate import FROZEN, FROZEN_G, HALVES, LARGE, LEAVES, SINGLE
from autograder.observers.u03.lost_bytes import projection_of
from autograder.observers.u03.microscope import FREEING, NUM_FREED, PROGRAMS, RAISING, program_of
from course_utils.configs import PRECISIONS, Kernels, gpt
from course_utils.formulas.activations import kept_by_operation, llama_layer_bytes
from course_utils.instruments import count_saved_bytes, fake_tensors, storage_bytes
from course_utils.reference import Block, Transformer, token_loss
from course_utils.reference.attention import drop
from course_utils.reference.dtypes import FLOATS
from course_utils.reference.fused import RMSNorm, rotate
from course_utils.reference.mixed_precision import TrainingState

# === for several exercises
# What would answer exercises of this unit, and sizes beyond what a float holds.


# What counts saved bytes, builds a whole layer or a whole state, or is asked for itself.
COUNTERS = (
    "course_utils.instruments.saved_bytes",
    "course_utils.reference.transformer",
    "course_utils.reference.layers",
    "course_utils.reference.mixed_precision",
)


def just_above(power: int, rng: random.Random) -> int:
    """An odd size a little larger than a power of two, whose products no float holds."""
    return int(2**power + rng.randrange(1, 511, 2))


# === u03-parameters
# A model's parameters, part by part.


GPT = {"is_gated": False, "has_biases": True, "is_tied": True}


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
    gpt_2 = preset_sizes("GPT-2-124M") | {"num_layers": rng.randint(2, 99)}
    llama_1b = preset_sizes("Llama-3.2-1B") | {"num_layers": rng.randint(2, 99)}
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
    return named(SIZE_NAMES, sizes)


def _part_of(name: str) -> str:
    if "norm" in name:
        return "norms"
    if ".attention." in name:
        return "attention"
    return "feed_forward" if ".ffn." in name else "embedding_and_head"


@declares_check(
    "u03-parameters",
    parameters_cases,
    fallback="course_utils.formulas.parameters.parameters_by_part",
    give_away=COUNTERS,
)
def measured_parameters(model: dict[str, Any]) -> dict[str, int]:
    """The numbers in the tensors of a model on the meta device, by module."""
    counts = {"attention": 0, "feed_forward": 0, "norms": 0, "embedding_and_head": 0}
    for name, weight in Transformer(model_of(model), device="meta").named_parameters():
        counts[_part_of(name)] += weight.numel()
    return counts


# === u03-state-bytes
# The bytes of the training state: weights, gradients, optimizer states.


MOST_REAL = 100_000


def state_cases(seed: int) -> list[Case]:
    """Every recipe, from few parameters to a hundred thousand, and to more than a float counts."""
    rng = random.Random(seed)
    counts = (
        rng.randint(1, 9),
        rng.randint(10, 99),
        rng.randint(100, 9_999),
        rng.randint(10_000, MOST_REAL),
    )
    cases = [
        {"num_params": n, "recipe": recipe}
        for n in (*counts, rng.randint(10, MOST_REAL), just_above(54, rng))
        for recipe in PRECISIONS
    ]
    return [{"num_params": 1000, "recipe": "bf16"}, *cases]


@declares_check(
    "u03-state-bytes",
    state_cases,
    fallback="course_utils.formulas.memory.state_bytes_of_recipe",
    give_away=COUNTERS,
)
def measured_state_bytes(num_params: int, recipe: str) -> dict[str, int]:
    """Bytes of the storages after one training step of that many parameters, very many faked."""
    with nullcontext() if num_params <= MOST_REAL else fake_tensors():
        state = TrainingState(num_params, recipe)
        state.step()
        return {part: sum(map(storage_bytes, tensors)) for part, tensors in state.tensors().items()}


# === u03-kept-by-operation
# What single operations keep for their backward pass.


KEPT_BY_OPERATION_NAMES = ("num_sequences", "seq_len", "hidden_size", "num_heads")


def kept_cases(seed: int) -> list[Case]:
    """One sequence and several, one head and several, odd lengths, lengths above the width.

    The last counts are beyond a float.
    """
    rng = random.Random(seed)
    sizes = [(1, 3, 8, 2), (rng.randint(2, 9), 3, rng.randint(4, 9), 1)]
    for num_sequences in (1, rng.randint(2, 9)):
        for num_heads in (1, rng.randint(2, 5), rng.randint(6, 9)):
            for seq_len in (rng.randrange(3, 30, 2), rng.randrange(31, 60, 2), rng.randint(90, 99)):
                sizes.append((num_sequences, seq_len, num_heads * rng.randint(3, 8), num_heads))
    sizes.append((3, just_above(28, rng), 5 * just_above(26, rng), 5))
    return [named(KEPT_BY_OPERATION_NAMES, each) for each in sizes]


def _empty(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device="meta", requires_grad=True)


def _of_one_sequence(b: int, s: int, h: int, a: int) -> dict[str, int]:
    """What each operation keeps, of one sequence."""
    return {name: kept // b for name, kept in kept_by_operation(b, s, h, a).items() if kept}


@declares_check(
    "u03-kept-by-operation",
    kept_cases,
    first_symptoms=(
        Symptom(
            "Every wrong entry counts only one sequence. How many are there?",
            _of_one_sequence,
        ),
    ),
    fallback="course_utils.formulas.activations.kept_by_operation",
    give_away=COUNTERS,
)
def measured_kept_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """What autograd keeps for each operation alone, in bf16 on the meta device, without weights."""
    x, y = (_empty(num_sequences, seq_len, hidden_size) for _ in range(2))
    scores = _empty(num_sequences, num_heads, seq_len, seq_len)
    linear = torch.nn.Linear(hidden_size, 3, dtype=torch.bfloat16, device="meta")
    norm = RMSNorm(hidden_size, "meta", torch.bfloat16)
    calls = {
        "linear": lambda: linear(x),
        "rms_norm": lambda: norm(x),
        "gelu": lambda: F.gelu(x),
        "softmax": lambda: scores.softmax(-1),
        "dropout": lambda: drop(x, 0.1),
        "addition": lambda: x + y,
    }
    return {name: count_saved_bytes(call, linear, norm).total_bytes for name, call in calls.items()}


# === u03-gpt-layer-bytes
# The bytes a GPT layer keeps in 16 bits, term by term.


GPT_LAYER_BYTES_NAMES = ("num_sequences", "seq_len", "hidden_size", "num_heads")

GPT_KERNELS = Kernels(is_attention_fused=False, dropout_fraction=0.1)


def gpt_cases(seed: int) -> list[Case]:
    """One sequence and several, one head and several, short and long against the width.

    The last counts are beyond a float.
    """
    rng = random.Random(seed)
    sizes = [(1, 3, 12, 2), (rng.randint(2, 9), 5, rng.randint(6, 19), 1)]
    for num_sequences in (1, rng.randint(2, 9)):
        for num_heads in (1, rng.randint(2, 5), rng.randint(6, 9)):
            for seq_len in (
                rng.randrange(13, 30, 2),
                rng.randrange(31, 60, 2),
                rng.randint(90, 99),
            ):
                width = num_heads * rng.randint(3, 11)
                if width == seq_len:  # only scores are square
                    width += num_heads
                sizes.append((num_sequences, seq_len, width, num_heads))
    sizes.append((1, 64 * rng.randint(8, 64), 12288, 96))  # GPT-3
    sizes.append((3, just_above(26, rng), 5 * just_above(25, rng), 5))
    return [named(GPT_LAYER_BYTES_NAMES, each) for each in sizes]


@declares_check(
    "u03-gpt-layer-bytes",
    gpt_cases,
    fallback="course_utils.formulas.activations.gpt_layer_bytes",
    give_away=COUNTERS,
)
def measured_gpt_layer_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """A real bf16 layer on the meta device, where a LayerNorm keeps what it keeps on a GPU.

    Tensors whose last two axes have the sequence length are scores. One norm, and the feed-forward
    block with its dropout, are also measured alone.
    """
    block = Block(gpt(hidden_size, num_heads), 0, "meta", torch.bfloat16, GPT_KERNELS)
    shape = (num_sequences, seq_len, hidden_size)
    x = torch.empty(shape, dtype=torch.bfloat16, device="meta", requires_grad=True)

    def kept(call: Callable[[], torch.Tensor]) -> tuple[int, int]:
        saved = count_saved_bytes(call, block)
        square = (seq_len, seq_len)
        scores = sum(t.storage_bytes for t in saved.tensors if t.shape[-2:] == square)
        return saved.total_bytes - scores, scores

    whole, scores = kept(lambda: block(x))
    norms = 2 * kept(lambda: block.ffn_norm(x))[0]
    feed_forward, _ = kept(lambda: torch.native_dropout(block.ffn(x), 0.1, True)[0])
    return {
        "norms": norms,
        "attention": whole - norms - feed_forward,
        "scores": scores,
        "feed_forward": feed_forward,
    }


# === u03-llama-layer-bytes
# The bytes a Llama layer keeps, term by term.


ELEMENT_BYTES = (2, 4)


def llama_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query, multi-query; bf16 and fp32; the layer of Llama-3-8B.

    Then heads that are together wider or narrower than the model. The last counts are beyond a
    float.
    """
    rng = random.Random(seed)
    cases = [_llama_layer_bytes_case((2, 4, 2, 1, 3, 5), 1, 2, 2)]  # the worked one
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for num_sequences in (1, rng.randint(2, 5), rng.randint(6, 9)):
            for element_bytes in ELEMENT_BYTES:
                hidden_size = kv * group * rng.choice((4, 6, 8))
                sizes = (2, hidden_size, kv * group, kv, rng.randrange(5, 99, 2), 1)
                seq_len = rng.randrange(3, 99, 2)
                cases.append(_llama_layer_bytes_case(sizes, num_sequences, seq_len, element_bytes))
    llama_8b = tuple(preset_sizes("Llama-3-8B").values())
    cases += [
        _llama_layer_bytes_case(llama_8b, 1, 64 * rng.randint(32, 128), each)
        for each in ELEMENT_BYTES
    ]
    for head_dim in (4, 10):
        case = _llama_layer_bytes_case(
            (2, 48, 6, 3, rng.randrange(5, 99, 2), 1), 2, rng.randrange(3, 99, 2), 2
        )
        cases.append(case | {"model": case["model"] | {"head_dim": head_dim}})
    huge = (2, 12 * just_above(26, rng), 6, 3, just_above(29, rng), 1)
    return [*cases, _llama_layer_bytes_case(huge, 3, just_above(25, rng), 2)]


def _llama_layer_bytes_case(
    sizes: tuple[int, ...], num_sequences: int, seq_len: int, element_bytes: int
) -> Case:
    return {
        "model": named(SIZE_NAMES, sizes),
        "num_sequences": num_sequences,
        "seq_len": seq_len,
        "element_bytes": element_bytes,
    }


@declares_check(
    "u03-llama-layer-bytes",
    llama_cases,
    fallback="course_utils.formulas.activations.llama_layer_bytes",
    give_away=COUNTERS,
)
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


# === u03-sequence-bytes
# The bytes that one more sequence keeps.


SMALL_HIDDEN_SIZE = 512


def sequence_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query, multi-query; tied heads; small and large vocabularies.

    Real models, too. The last count is beyond a float.
    """
    rng = random.Random(seed)
    cases = [_sequence_bytes_case((2, 4, 2, 1, 3, 5), 2)]  # the worked one
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for vocab_size in (rng.randint(5, 20), rng.randint(100, 999), rng.randint(5_000, 9_000)):
            for num_layers in (rng.randint(2, 3), rng.randint(4, 6)):
                sizes = (num_layers, kv * group * 6, kv * group, kv, rng.randrange(5, 99, 2))
                is_tied = len(cases) % 3 == 0
                cases.append(
                    _sequence_bytes_case(
                        (*sizes, vocab_size), rng.randrange(3, 99, 2), is_tied=is_tied
                    )
                )
    llama_1b = tuple(preset_sizes("Llama-3.2-1B").values())
    llama_8b = tuple(preset_sizes("Llama-3-8B").values())
    huge = _sequence_bytes_case((2, 1024, 8, 4, 5, just_above(29, rng)), just_above(27, rng))
    lengths = (64 * rng.randint(32, 128) for _ in range(2))
    real = [
        _sequence_bytes_case(llama_1b, next(lengths), is_tied=True),
        _sequence_bytes_case(llama_8b, next(lengths)),
    ]
    return [*cases, *real, huge]


def _sequence_bytes_case(sizes: tuple[int, ...], seq_len: int, *, is_tied: bool = False) -> Case:
    model = named(SIZE_NAMES, sizes) | {"is_tied": is_tied}
    layer_bytes = sum(llama_layer_bytes(model_of(model), 1, seq_len, 2).values())
    return {"model": model, "seq_len": seq_len, "layer_bytes": layer_bytes}


@cache
def _counted(model: str, batch: int, seq_len: int) -> int:
    """A small model runs on real tensors, which is faster; a large one on fake tensors.

    Both keep the same bytes.
    """
    sizes = model_of(json.loads(model))
    with nullcontext() if sizes.hidden_size < SMALL_HIDDEN_SIZE else fake_tensors():
        built = Transformer(sizes, dtype=torch.bfloat16)
        ids, targets = (torch.zeros(batch, seq_len, dtype=torch.long) for _ in range(2))
        loss = count_saved_bytes(lambda: token_loss(built(ids), targets, is_fp32=True), built)
    return loss.total_bytes


@declares_check(
    "u03-sequence-bytes",
    sequence_cases,
    fallback="course_utils.formulas.activations.sequence_bytes",
    give_away=COUNTERS,
)
def measured_sequence_bytes(model: dict[str, Any], seq_len: int, layer_bytes: int) -> int:
    """What two sequences keep, minus what one keeps, counted in bf16."""
    one, two = (_counted(json.dumps(model), batch, seq_len) for batch in (1, 2))
    return two - one


# === u03-microscope
# The student's counter of saved bytes, on programs that it has never seen.


def microscope_cases(seed: int) -> list[Case]:
    """Every program, in bf16 and fp32, on unequal sizes."""
    rng = random.Random(seed)
    return [
        {
            "program": program,
            "rows": rng.randint(2, 9),
            "columns": 2 * rng.randint(2, 9),
            "width": rng.randrange(3, 19, 2),
            "dtype": dtype,
        }
        for dtype in ("fp32", "bf16")
        for program in PROGRAMS
    ]


@declares_check(
    "u03-microscope",
    microscope_cases,
    observer=microscope,
    fallback="course_utils.instruments.saved_bytes.saved_bytes",
    give_away=COUNTERS,
)
def measured_microscope(**case: Any) -> dict[str, Any]:
    """What the course's instrument counts for the same program, and that nothing else changes."""
    program = program_of(**case)
    if case["program"] == RAISING:
        return {"calls": 1}
    with torch.set_grad_enabled(program.is_recorded):
        num_bytes = count_saved_bytes(program.call, *program.parameters).total_bytes
    if case["program"] == FREEING:  # the instrument leaves out what is freed before the call ends
        num_bytes *= NUM_FREED + 1
    return {"calls": 1, "bytes": num_bytes}


# === u03-element-bytes
# The bytes a GPT layer keeps in any precision, with and without dropout.


ELEMENT_BYTES_NAMES = ("seq_len", "hidden_size", "num_heads", "element_bytes", "has_dropout")


def element_cases(seed: int) -> list[Case]:
    """Two and four bytes, with and without dropout, one head and several, and beyond a float."""
    rng = random.Random(seed)
    kinds = [(e, has_dropout) for e in (2, 4) for has_dropout in (True, False)]
    sizes = [(rng.randrange(3, 13, 2), 2 * rng.randint(3, 9), 2)]
    for num_heads in (1, 2, rng.randint(3, 5), rng.randint(6, 9), rng.randint(10, 12)):
        sizes.append((rng.randrange(13, 99, 2), num_heads * rng.randint(3, 11), num_heads))
    sizes.append((just_above(27, rng), 3 * just_above(25, rng), 3))
    cases = [(3, 8, 2, 4, True), *((*each, *kind) for each in sizes for kind in kinds)]
    return [named(ELEMENT_BYTES_NAMES, each) for each in cases]


@declares_check("u03-element-bytes", element_cases, give_away=COUNTERS)
def measured_layer_bytes(
    seq_len: int, hidden_size: int, num_heads: int, element_bytes: int, has_dropout: bool
) -> int:
    """A real layer on the meta device, for one sequence."""
    dtype, dropout = FLOATS[element_bytes], 0.1 if has_dropout else 0.0
    kernels = Kernels(is_attention_fused=False, dropout_fraction=dropout)
    block = Block(gpt(hidden_size, num_heads), 0, "meta", dtype, kernels)
    x = torch.empty(1, seq_len, hidden_size, dtype=dtype, device="meta", requires_grad=True)
    return count_saved_bytes(lambda: block(x), block).total_bytes


# === u03-fused-gate
# A fused gate: right results, right gradients, fewer bytes kept.


KINDS = ("", HALVES, FROZEN, SINGLE, FROZEN_G, LEAVES, LARGE)


def gate_cases(seed: int) -> list[Case]:
    """One row and many, two sides and three; of every kind, with large numbers among them."""
    rng = random.Random(seed)
    shapes = [[1, 3], [1, rng.randrange(5, 30, 2)]]
    shapes += [[rng.randint(1, 3), rng.randrange(3, 30, 2)] for _ in range(6)]
    shapes += [[rng.randint(4, 12), rng.randint(2, 12)] for _ in range(8)]
    shapes += [[rng.randint(2, 3), rng.randint(2, 4), rng.randrange(3, 9, 2)] for _ in range(8)]
    kinds = ("", "", *(KINDS[n % len(KINDS)] for n in range(len(shapes) - 2)))
    return [{"shape": s, "kind": kind} for s, kind in zip(shapes, kinds, strict=True)]


@declares_check(
    "u03-fused-gate",
    gate_cases,
    observer=fused_gate,
    give_away=(
        *COUNTERS,
        "course_utils.reference.fused.swiglu",
        "course_utils.reference.fused._SwiGLU",
    ),
)
def measured_fused_gate(**case: Any) -> dict[str, Any]:
    """silu(g) * u, left to autograd; kept are the two inputs and nothing else."""
    g, u = fused_gate.inputs_of(case)
    result = F.silu(g) * u
    return {
        "saved_bytes": 2 * g.numel() * g.element_size(),
        "result": result.detach(),
        "gradients": gradients_of(result, [g, u]),
    }


# === u03-lost-bytes
# Attention that keeps no copies made for a memory layout.


RESULT = ("wrong_first", "wrong_between", "wrong_last")
LOST_BYTES_NAMES = ("num_sequences", "seq_len", "num_heads", "num_kv_heads", "head_dim")


def layout_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query and multi-query; one sequence and several; odd lengths."""
    rng = random.Random(seed)
    cases = []
    for kv, group in ((2, 1), (rng.randint(2, 3), 3), (1, 4), (3, 1)):
        for num_sequences in (1, 2, rng.randint(3, 4)):
            for seq_len in (rng.randrange(3, 9, 2), rng.randrange(9, 14, 2)):
                sizes = (num_sequences, seq_len, kv * group, kv, rng.choice((4, 6)))
                cases.append(named(LOST_BYTES_NAMES, sizes))
    return cases


def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention on rotated queries and keys, with all scores in memory."""
    group = q.shape[2] // k.shape[2]
    k, v = (each.repeat_interleave(group, dim=2) for each in (rotate(k), v))
    scores = torch.einsum("bsad,btad->bast", rotate(q), k) * q.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return torch.einsum("bast,btad->bsad", weights, v).flatten(-2)


def _num_wrong(b: int, s: int, a: int, kv: int, d: int) -> dict[str, int]:
    """How many entries first, last and other tokens have."""
    return named(RESULT, (b * a * d, b * (s - 2) * a * d, b * a * d))


FIRST_IS_RIGHT = (
    "Only the first token's result is right, so your positions come in differently than in the "
    "code above. Which of q, k and v does it rotate, and which axis holds the tokens at that "
    "point?"
)
LAST_IS_RIGHT = (
    "Only the last token's result is right. Which tokens may each of the earlier ones see?"
)


@declares_check(
    "u03-lost-bytes",
    layout_cases,
    observer=lost_bytes,
    symptoms=(
        Symptom(FIRST_IS_RIGHT, lambda *sizes: _num_wrong(*sizes) | {"wrong_first": 0}),
        Symptom(LAST_IS_RIGHT, lambda *sizes: _num_wrong(*sizes) | {"wrong_last": 0}),
    ),
    give_away=(*COUNTERS, "course_utils.reference.attention"),
)
def measured_lost_bytes(**case: Any) -> dict[str, Any]:
    """Results and gradients with all scores in memory; the bytes that the model answer keeps."""
    inputs, projection = lost_bytes.inputs_of(case), projection_of(case)
    result = written_out(*inputs)
    lean = model_answer("u03-lost-bytes")
    kept = count_saved_bytes(lambda: projection(lean(*inputs, rotate)), projection)
    return {
        "saved_bytes": kept.total_bytes,
        "result": result.detach(),
        "gradients": gradients_of(result, inputs),
    }
