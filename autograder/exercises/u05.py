"""The checks of unit 05: keep it, or compute it again?"""

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, named
from autograder.checking.mistakes import Symptom
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import declares_check
from autograder.observers.u05 import checkpoint, loss_in_pieces, plan, policy, segments
from autograder.observers.u05.checkpoint import LATE
from autograder.observers.u05.loss_in_pieces import UPSTREAM
from autograder.observers.u05.policy import Products
from course_utils.configs import Kernels
from course_utils.instruments import count_flops, storage_bytes
from course_utils.reference import Block
from course_utils.reference.attention import attend_materialised
from course_utils.reference.recomputation import checkpoint as checkpoint_of_recomputation
from course_utils.reference.recomputation import in_segments, run_in_segments

# === u05-checkpoint
# The student's own checkpoint: its bytes, calls, results and gradients.


# The kinds of each scenario: how many inputs, what is drawn at random, which inputs require a
# gradient, and which precision autocast has.
KINDS = {
    "gradients": ("one input", "two inputs", "three inputs"),
    "random": ("dropout", "noise"),
    "frozen_inputs": ("data and a scale", "a mask", "data alone"),
    "autocast": ("bfloat16", "float16", "off", LATE),
}


def checkpoint_cases(seed: int) -> list[Case]:
    """Every kind for one layer and for chains of two and three."""
    rng = random.Random(seed)
    cases = []
    for scenario, kinds in KINDS.items():
        for kind, num_layers in ((kind, n) for kind in kinds for n in (1, rng.randint(2, 3))):
            rows, width = rng.randint(8, 11), rng.randrange(5, 11, 2)
            if scenario == "autocast":
                rows, width = 8 * rng.randint(1, 4), 8  # a new size takes ten milliseconds
            cases.append(_checkpoint_case(scenario, kind, num_layers, rows, width))
    return [cases[0] | {"rows": 2, "width": 3}, *cases[1:]]


def _checkpoint_case(*values: Any) -> Case:
    return named(("scenario", "kind", "num_layers", "rows", "width"), values)


@declares_check(
    "u05-checkpoint",
    checkpoint_cases,
    observer=checkpoint,
    scenarios=tuple(KINDS),
    fallback="course_utils.reference.recomputation.checkpoint",
    give_away=("course_utils.reference.recomputation",),
    forbidden_modules=("torch.utils.checkpoint",),
)
def measured_checkpoint(**case: Any) -> dict[str, Any]:
    """Each layer called once in each pass, nothing kept but the layers' inputs.

    All else is as if nothing were recomputed, on the machine that judges if that is to be asked.
    """
    x, *scales = checkpoint.inputs_of(case)
    plain = {} if case["scenario"] == checkpoint.MEASURED_HERE else checkpoint.plain_numbers(case)
    return {
        "calls_in_forward": case["num_layers"],
        "calls_in_backward": case["num_layers"],
        "kept_bytes": case["num_layers"] * storage_bytes(x) + sum(map(storage_bytes, scales)),
        **plain,
    }


# === u05-segment-peak
# The bytes that segments keep after the forward pass, and of their peak.


SEGMENT_PEAK_NAMES = ("num_layers", "layers_per_segment", "boundary_bytes", "layer_bytes")

ELEMENT_BYTES = 2

# Bytes of a boundary, bytes of a layer: Llama-3.2-1B at 4,096 tokens and Llama-3-70B at
# 8,192, both in bf16 with fused attention.
PUBLISHED = ((16_777_216, 378_044_416), (134_217_728, 2_720_071_680))
# Both results are odd numbers of bytes, or of two bytes, beyond what a float holds.
BEYOND_A_FLOAT = (199, 7, 2**49 + 2, 2**50 + 1)


def segment_peak_cases(seed: int) -> list[Case]:
    """Segments of one layer, of all layers and of more; sizes that divide the layers or do not."""
    rng = random.Random(seed)
    sizes = [(7, 3, 12, 50)]
    for num_layers in (rng.randint(5, 9), rng.randint(10, 15), rng.randint(16, 24)):
        for size in (1, 2, 3, 4, num_layers // 2 + 1, num_layers, num_layers + 2):
            boundary = ELEMENT_BYTES * rng.randint(2, 99)
            sizes.append((num_layers, size, boundary, rng.randint(2, 30) * boundary + 1))
    sizes.append((12, 4, 2 * rng.randint(20, 40), 2 * rng.randint(41, 50)))
    sizes += [(rng.randint(7, 99), 3, boundary, layer) for boundary, layer in PUBLISHED]
    num_layers, size, boundary, layer = BEYOND_A_FLOAT
    sizes.append((num_layers, size, boundary, layer + 4 * rng.randint(0, 999)))
    return [named(SEGMENT_PEAK_NAMES, each) for each in sizes]


class _KeepsBytes(torch.autograd.Function):
    """The identity, which saves its input and ``more_bytes`` beside it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, more_bytes: int) -> Tensor:
        ctx.save_for_backward(x, x.new_empty(more_bytes, dtype=torch.uint8))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        assert len(ctx.saved_tensors) == 2
        return grad.clone(), None


class _Layer(nn.Module):
    """A layer that saves its input and ``more_bytes`` beside it."""

    def __init__(self, more_bytes: int) -> None:
        super().__init__()
        self.more_bytes = more_bytes

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = _KeepsBytes.apply(x, self.more_bytes)  # type: ignore[no-untyped-call]
        return out


class _Kept:
    """Stands in for a saved tensor; it dies when autograd frees the tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class _Meter:
    """Bytes that autograd holds now, and its peak."""

    def __init__(self) -> None:
        self.refs: list[ref[_Kept]] = []
        self.peak_bytes = 0

    def pack(self, tensor: Tensor) -> _Kept:
        kept = _Kept(tensor.detach())
        self.refs.append(ref(kept))
        self.peak_bytes = max(self.peak_bytes, self.held_bytes())
        return kept

    def held_bytes(self) -> int:
        held = [kept.tensor.untyped_storage() for kept in (each() for each in self.refs) if kept]
        return sum({storage._cdata: storage.nbytes() for storage in held}.values())


@declares_check(
    "u05-segment-peak",
    segment_peak_cases,
    fallback="course_utils.formulas.recomputation.segment_bytes",
    give_away=("course_utils.reference.recomputation",),
)
def measured_segment_bytes(
    num_layers: int, layers_per_segment: int, boundary_bytes: int, layer_bytes: int
) -> dict[str, int]:
    """Bytes that autograd holds while layers of these sizes run in segments."""
    layers = [_Layer(layer_bytes - boundary_bytes) for _ in range(num_layers)]
    chain = nn.Sequential(*in_segments(layers, layers_per_segment))
    count, meter = boundary_bytes // ELEMENT_BYTES, _Meter()
    x = torch.empty(count, dtype=torch.bfloat16, device="meta", requires_grad=True)
    with saved_tensors_hooks(meter.pack, lambda kept: kept.tensor):
        out = chain(x)
        after_forward = meter.held_bytes()
        out.backward(torch.empty_like(out))
    return {"after_forward": after_forward, "peak": meter.peak_bytes}


# === u05-loss-in-pieces
# A loss whose logits are never all alive at once.


# Tensors as large as a piece's logits that may be alive at once: torch's cross-entropy and its
# gradient need three, one written with a log-sum-exp five.
LOGITS_AT_ONCE = 5.5
FLOAT64_BYTES = 8


def piece_cases(seed: int) -> list[Case]:
    """Pieces of one length and of two, one piece alone, small and larger vocabularies.

    No other tensor is as large as the logits of a piece.
    """
    rng = random.Random(seed)
    pairs = [(11, 3), (12, 3), (16, 1), (30, 2), (31, 4), (29, 3)]
    while len(pairs) < 20:
        num_pieces, length = rng.randint(2, 3), rng.randint(6, 9)
        # equal chunks with a shorter last one give the same number of pieces
        pairs.append((num_pieces * length - rng.randint(0, 1), num_pieces))
    return [
        _loss_in_pieces_case(tokens, 2, rng.randrange(41, 61, 2), pieces)
        for tokens, pieces in pairs
    ]


def _loss_in_pieces_case(*values: int) -> Case:
    return named(("num_tokens", "hidden_size", "vocab_size", "num_pieces"), values)


@declares_check(
    "u05-loss-in-pieces",
    piece_cases,
    observer=loss_in_pieces,
    relative_tolerance=PROMISED,
    fallback="course_utils.reference.recomputation.loss_in_pieces",
    give_away=("course_utils.reference.recomputation",),
    forbidden_modules=("torch.utils.checkpoint",),
)
def measured_loss_in_pieces(**case: int) -> dict[str, Any]:
    """The loss of all tokens at once, nothing kept beside the inputs, one run for each piece.

    Room is for some tensors as large as one piece's logits, for gradients of the inputs, and for
    one number of each piece.
    """
    trial = loss_in_pieces.Trial(**case)
    inputs = [each.detach().clone() for each in trial.inputs]
    loss = F.cross_entropy(trial.hidden @ trial.weight.T, trial.targets)
    (loss * UPSTREAM).backward()
    tokens, width, words, num_pieces = case.values()
    longest = -(-tokens // num_pieces)
    numbers_at_once = LOGITS_AT_ONCE * longest * words + (2 * tokens + 3 * words) * width
    return {
        "pieces": num_pieces,
        "loss": loss.item(),
        "tokens_in_longest_piece": longest,
        "gradients": trial.gradients,
        "inputs": inputs,
        "limits": {
            "kept": FLOAT64_BYTES * num_pieces,
            "peak": FLOAT64_BYTES * int(numbers_at_once),
        },
    }


# === u05-segments
# Layers that are recomputed in segments.


SEGMENTS_NAMES = ("num_layers", "layers_per_segment", "rows", "width")


def segment_cases(seed: int) -> list[Case]:
    """Segments of one layer, of all layers, longer than all, and with a shorter last one.

    Three equal segments could share 7 layers more evenly than segments of 3 do.
    """
    rng = random.Random(seed)
    pairs = [(5, 2), (1, 1), (3, 1), (4, 2), (6, 2), (4, 4), (3, 5), (5, 3), (7, 3)]
    while len(pairs) < 20:
        num_layers = rng.randint(3, 5)
        pairs.append((num_layers, rng.randint(2, num_layers - 1)))
    rows = [50, *(rng.randint(40, 60) for _ in pairs[1:])]
    return [named(SEGMENTS_NAMES, (*pair, n, 3)) for pair, n in zip(pairs, rows, strict=True)]


@declares_check(
    "u05-segments",
    segment_cases,
    observer=segments,
    symptoms=(
        Symptom(
            "Segments run again, and none went through the `checkpoint` that is given. Where does "
            "the one that you call come from?",
            lambda *_: {"layers_in_first_segment": 0, "layers_in_last_segment": 0},
        ),
    ),
    fallback="course_utils.reference.recomputation.run_in_segments",
    give_away=("course_utils.reference.recomputation",),
    forbidden_modules=("torch.utils.checkpoint",),
)
def measured_segments(**case: int) -> dict[str, Any]:
    """Each layer twice, one boundary for each segment, and a step without any checkpoint."""
    layers, size, trial = case["num_layers"], case["layers_per_segment"], segments.Trial(**case)
    result = nn.Sequential(*trial.layers)(trial.x * 1)
    trial.go_back(result)
    return {
        "calls_in_forward": layers,
        "calls_in_backward": layers,
        "layers_called_twice": layers,
        "kept_bytes": len(range(0, layers, size)) * trial.x.nbytes,
        "layers_in_first_segment": min(size, layers),
        "layers_in_last_segment": (layers - 1) % size + 1,
        "peak_bytes": segments.peak_of(run_in_segments, case),
        "result": result.detach(),
        "gradients": [leaf.grad for leaf in trial.leaves],
    }


# === u05-recomputed-flops
# The FLOPs that recomputation costs.


# Materialised attention without dropout ends in a product, which stopping early leaves out.
MATERIALISED = Kernels(is_attention_fused=False)
LARGE = 1024  # layers this wide run on the meta device, which is slower for small ones


def flops_cases(seed: int) -> list[Case]:
    """GPT and Llama; own, grouped and single keys and values; heads of any width; large layers."""
    rng = random.Random(seed)
    cases = [_recomputed_flops_case((4, 2, 2, 3), is_gpt=False, num_sequences=1, seq_len=2)]
    for kv, group in ((2, 1), (rng.randint(2, 3), 2), (1, rng.randint(3, 5))):
        for num_sequences in (1, rng.randint(2, 3), rng.randint(4, 5)):
            for is_gpt in (True, False):
                heads, head_dim = kv * group, rng.choice((2, 4, 6))
                shared = heads if is_gpt else kv
                sizes = (heads * head_dim, heads, shared, rng.randrange(31, 99, 2))
                cases.append(
                    _recomputed_flops_case(sizes, is_gpt, num_sequences, rng.randrange(3, 29, 2))
                )
    for wider in (2, -2):
        own = _recomputed_flops_case(
            (24, 4, 2, rng.randrange(31, 99, 2)), False, rng.randint(2, 3), 7
        )
        own["model"]["head_dim"] = 6 + wider
        cases.append(own)
    cases.append(_recomputed_flops_case((2048, 32, 8, 8192), False, 1, 64 * rng.randint(16, 96)))
    beyond_a_float = _recomputed_flops_case(
        (8191, 63, 7, 28671), False, rng.randrange(65, 99, 2), 131_071
    )
    beyond_a_float["model"]["head_dim"] = 126
    return [*cases, beyond_a_float]


def _recomputed_flops_case(
    sizes: tuple[int, int, int, int], is_gpt: bool, num_sequences: int, seq_len: int
) -> Case:
    names = ("hidden_size", "num_heads", "num_kv_heads", "ffn_size")
    model: dict[str, Any] = {"num_layers": seq_len % 3 + 1, **named(names, sizes)}
    model["vocab_size"] = 7
    if is_gpt:
        model |= {"is_gated": False, "has_biases": True, "num_positions": 32}
    return {"model": model, "num_sequences": num_sequences, "seq_len": seq_len}


def _recomputed(call: Callable[..., Tensor], *tensors: Tensor) -> dict[str, int]:
    """FLOPs recomputed under the course's checkpoint, and under PyTorch's, which stops early."""
    ways = (
        call,
        partial(checkpoint_of_recomputation, call),
        partial(torch_checkpoint, call, use_reentrant=False),
    )
    plain, whole, early = (count_flops(partial(way, *tensors)).backward_flops for way in ways)
    return {"whole": whole - plain, "early": early - plain}


@declares_check(
    "u05-recomputed-flops",
    flops_cases,
    fallback="course_utils.formulas.recomputation.recomputed_flops_of_layer",
    give_away=("course_utils.instruments.flop_count", "torch.utils.flop_counter"),
)
def measured_recomputed_flops(
    model: dict[str, Any], num_sequences: int, seq_len: int
) -> dict[str, int]:
    """FLOPs that a real layer and a real attention core run again under two checkpoints.

    The smallest part comes first, so that the first difference is the simplest to explain.
    """
    sizes = model_of(model)
    device = "cpu" if sizes.hidden_size < LARGE else "meta"
    shape, layer = (num_sequences, seq_len), Block(sizes, 0, device, kernels=MATERIALISED)
    heads = (sizes.num_heads, sizes.num_kv_heads, sizes.num_kv_heads)
    x = torch.ones(*shape, sizes.hidden_size, device=device, requires_grad=True)
    qkv = [
        torch.ones(*shape, each, sizes.head_dim, device=device, requires_grad=True)
        for each in heads
    ]
    full, selective = _recomputed(layer, x), _recomputed(attend_materialised, *qkv)
    return {
        "selective_early": selective["early"],
        "selective": selective["whole"],
        "full_early": full["early"],
        "full": full["whole"],
    }


# === u05-best-segment
# How many layers a segment should have for the lowest peak.


# Every known mistake gives a different number for these sizes.
TELLS_MISTAKES_APART = (85, 1, 2)
# The best length is above the square root of the layers.
LONG_SEGMENTS = ((3, 12, 12), (8, 12, 12))

BEST_SEGMENT_NAMES = ("num_layers", "boundary_bytes", "layer_bytes")


def best_cases(seed: int) -> list[Case]:
    """Layers that keep little or much beside their input; equal peaks; one layer; real models."""
    rng = random.Random(seed)
    sizes = [(16, 12, 12)]
    for lowest, highest in ((1, 1), (2, 3), (4, 9), (10, 40)):
        for num_layers in (9, rng.randint(10, 19), rng.randint(20, 39), rng.randint(40, 99)):
            boundary = rng.randint(2, 99)
            sizes.append((num_layers, boundary, rng.randint(lowest, highest) * boundary))
    for num_layers, boundary, layer in (TELLS_MISTAKES_APART, *LONG_SEGMENTS, (1, 12, 50)):
        times = rng.randint(1, 99)
        sizes.append((num_layers, times * boundary, times * layer))
    sizes += [(rng.randint(16, 99), *each) for each in PUBLISHED]
    return [named(BEST_SEGMENT_NAMES, each) for each in sizes]


@declares_check("u05-best-segment", best_cases)
def simulated_best(num_layers: int, boundary_bytes: int, layer_bytes: int) -> int:
    """The same, by simulating the backward pass for segments of each length."""
    peaks = {}
    for size in range(1, num_layers + 1):
        layers = list(range(num_layers))
        segments = [layers[first : first + size] for first in range(0, num_layers, size)]
        seen = []
        while segments:
            running = segments.pop()
            seen.append(len(segments) * boundary_bytes + len(running) * layer_bytes)
        peaks[size] = max(seen)
    return min(peaks, key=lambda size: (peaks[size], size))


# === u05-policy
# A policy: which operations keep their results, and which run again?


FFN_SIZES = (31, 47)


def policy_cases(seed: int) -> list[Case]:
    """GPT and Llama, fused and materialised attention, own and shared keys and values."""
    rng = random.Random(seed)
    cases: list[Case] = []
    for number in range(5):
        for kind in ("GPT", "Llama"):
            for attention in ("fused", "written out"):
                kv, group = rng.randint(1, 2), rng.randint(2, 3) if number % 2 else 1
                cases.append(
                    {
                        "kind": kind,
                        "attention": attention,
                        "num_sequences": number % 2 + 1,
                        "seq_len": rng.choice((5, 9)),
                        "num_heads": kv * group,
                        "num_kv_heads": kv * group if kind == "GPT" else kv,
                        "head_dim": 4,
                        "ffn_size": rng.choice(FFN_SIZES),
                    }
                )
    return cases


@declares_check(
    "u05-policy",
    policy_cases,
    observer=policy,
    fallback="course_utils.reference.recomputation.save_products",
    give_away=("course_utils.reference.recomputation",),
)
def measured_policy(**case: Any) -> dict[str, int]:
    """What products make in a forward pass, and how many a backward pass has by itself."""
    layer, x = policy.layer_and_input(**case)
    with Products() as forward:
        result = layer(x)
    with Products() as backward:
        result.backward(torch.ones_like(result))
    return {"kept_bytes": forward.num_bytes, "products_in_backward": backward.count}


# === u05-plan
# A plan: which layers recompute what, so that the bytes fit and the FLOPs are few?


Option = dict[str, Any]
FIELDS = ("name", "kept_bytes", "recomputed_flops")
OPTION_NAMES = ("none", "products", "attention", "selective", "full")

# Too many layers to try every sequence of options.
MANY_LAYERS = 16


def plan_cases(seed: int) -> list[Case]:
    """Caps below every plan, exactly on one, above all, in between; many layers; equal options."""
    rng = random.Random(seed)
    worked = _options([("none", 10, 0), ("selective", 6, 1), ("full", 1, 4)])
    cases: list[Case] = [{"num_layers": 4, "options": worked, "cap_bytes": 19}]
    for num_options in (2, 3, 3, 4, 4, 4):
        for place in ("none fits", "to the byte", "between", "between"):
            num_layers, options = rng.randint(5, 9), _random_options(rng, num_options)
            cap = _cap(rng, num_layers, options, place)
            cases.append({"num_layers": num_layers, "options": options, "cap_bytes": cap})
    options = _random_options(rng, 3)
    largest = max(option["kept_bytes"] for option in options)
    cases.append({"num_layers": 6, "options": options, "cap_bytes": 7 * largest})
    options = _random_options(rng, 5)
    cap = _cap(rng, MANY_LAYERS, options, "between")
    cases.append({"num_layers": MANY_LAYERS, "options": options, "cap_bytes": cap})
    return [*cases, _with_twins(rng)]


def _with_twins(rng: random.Random) -> Case:
    """Two options of other names keep and recompute the same, and no good plan lacks them both."""
    kept, flops = rng.randint(100, 150), rng.randint(20, 60)
    rows = [("products", kept, flops), ("attention", kept, flops)]
    rows += [
        ("none", rng.randint(400, 499), 0),
        ("full", rng.randint(5, 25), rng.randint(600, 900)),
    ]
    rng.shuffle(rows)
    return {"num_layers": 5, "options": _options(rows), "cap_bytes": 5 * kept}


def _options(rows: Iterable[tuple[str, int, int]]) -> list[Option]:
    return [named(FIELDS, row) for row in rows]


def _random_options(rng: random.Random, count: int) -> list[Option]:
    """Options in any order: the more one keeps, the less it recomputes."""
    kept = sorted(rng.sample(range(60, 500), count - 1), reverse=True)
    flops = sorted(rng.sample(range(40, 900), count - 1))
    names = [*OPTION_NAMES[: count - 1], OPTION_NAMES[-1]]
    rows = list(zip(names, [*kept, rng.randint(5, 25)], [0, *flops], strict=True))
    rng.shuffle(rows)
    return _options(rows)


def _cap(rng: random.Random, num_layers: int, options: list[Option], place: str) -> int:
    sizes: list[int] = [option["kept_bytes"] for option in options]
    lowest, highest = num_layers * min(sizes), num_layers * max(sizes)
    if place == "none fits":
        return lowest - rng.randint(1, 9)
    if place == "to the byte":
        return sum(rng.choice(sizes) for _ in range(num_layers))
    return rng.randint(lowest + (highest - lowest) // 5, highest - (highest - lowest) // 5)


@declares_check(
    "u05-plan",
    plan_cases,
    observer=plan,
    fallback="course_utils.formulas.recomputation.cheapest_plan",
)
def best(num_layers: int, options: list[Option], cap_bytes: int) -> dict[str, int]:
    """The fewest FLOPs under the cap, layer by layer for every sum of bytes that can occur."""
    fewest = {0: 0}
    for _ in range(num_layers):
        longer: dict[int, int] = {}
        for kept, flops in fewest.items():
            for option in options:
                total, cost = kept + option["kept_bytes"], flops + option["recomputed_flops"]
                if total <= cap_bytes:
                    longer[total] = min(cost, longer.get(total, cost))
        fewest = longer
    return {
        "planned_layers": num_layers if fewest else 0,
        "recomputed_flops": min(fewest.values(), default=0),
    }
