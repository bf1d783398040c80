"""What recomputation keeps and costs: each formula equals autograd's bytes and counted FLOPs."""

from functools import partial
from itertools import combinations_with_replacement
from math import sqrt

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from course_utils.configs import Kernels, ModelConfig, RunConfig, precision, preset
from course_utils.formulas.flops import forward_flops
from course_utils.formulas.recomputation import (
    POLICIES,
    boundary_bytes,
    cheapest_plan,
    kept_bytes,
    recomputed_flops,
    recomputed_flops_of_layer,
    segment_bytes,
    segment_peak_bytes,
)
from course_utils.instruments import count_flops, count_saved_bytes, fake_tensors, trace_memory
from course_utils.reference import Block, Transformer
from course_utils.reference.attention import attend, attend_materialised
from course_utils.reference.dtypes import FLOATS
from course_utils.reference.recomputation import in_segments
from tests.random_models import KERNELS, KINDS, ORDINARY_KINDS, random_model, random_run

NOT_RECOMPUTED = [name for name, each in KERNELS.items() if not each.is_attention_recomputed]


def with_policy(kernels: Kernels, policy: str) -> Kernels:
    return Kernels(**vars(kernels) | {"is_attention_recomputed": policy == "selective"})


def layers_of(model: ModelConfig, run: RunConfig, policy: str, size: int = 1) -> nn.Sequential:
    dtype, kernels = FLOATS[run.precision.activation_bytes], with_policy(run.kernels, policy)
    blocks = [Block(model, n, dtype=dtype, kernels=kernels) for n in range(model.num_layers)]
    return nn.Sequential(*(in_segments(blocks, size) if policy == "full" else blocks))


def between_layers(model: ModelConfig, run: RunConfig) -> Tensor:
    shape = (run.micro_batch_size, run.seq_len, model.hidden_size)
    return torch.ones(shape, dtype=FLOATS[run.precision.activation_bytes])


def saved_by_layers(model: ModelConfig, run: RunConfig, policy: str, size: int = 1) -> int:
    with fake_tensors():
        layers = layers_of(model, run, policy, size)
        x = between_layers(model, run)
        return count_saved_bytes(lambda: layers(x), layers).total_bytes


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kernels", NOT_RECOMPUTED)
@pytest.mark.parametrize("kind", ORDINARY_KINDS)
def test_layers_keep_what_the_formula_says(kind, kernels, policy):
    model, run = random_model(kind, 2), random_run(kernels, 2)
    assert saved_by_layers(model, run, policy) == kept_bytes(model, run, policy)
    if policy == "full":
        of_pairs = segment_bytes(model.num_layers, 2, boundary_bytes(model, run), 0)
        assert saved_by_layers(model, run, policy, 2) == of_pairs["after_forward"]


def counted_backward(model: ModelConfig, run: RunConfig, policy: str, wrap=lambda x: x) -> int:
    built = Transformer(model, device="meta", kernels=with_policy(run.kernels, policy))
    built.blocks = wrap(built.blocks)
    ids = torch.zeros(run.micro_batch_size, run.seq_len, dtype=torch.long, device="meta")
    return count_flops(lambda: built(ids)).backward_flops


def balanced_run(kernels: str) -> RunConfig:
    """A run whose tokens divide evenly among experts."""
    return RunConfig(micro_batch_size=2, seq_len=8, kernels=KERNELS[kernels])


@pytest.mark.parametrize("policy", ["selective", "full"])
@pytest.mark.parametrize("kernels", NOT_RECOMPUTED)
@pytest.mark.parametrize("kind", KINDS)
def test_recomputed_flops_are_those_counted(kind, kernels, policy):
    model, run = random_model(kind, 3), balanced_run(kernels)
    wrap = in_segments if policy == "full" else lambda x: x
    more = counted_backward(model, run, policy, wrap) - counted_backward(model, run, "none")
    assert more == recomputed_flops(model, run, policy)


class Checkpointed(nn.Module):
    """A layer with PyTorch's own checkpoint, which stops early."""

    def __init__(self, layer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return torch_checkpoint(self.layer, x, use_reentrant=False)


@pytest.mark.parametrize("kernels", NOT_RECOMPUTED)
@pytest.mark.parametrize("kind", [*ORDINARY_KINDS, "latent"])
def test_a_checkpoint_that_stops_early_computes_less(kind, kernels):
    def wrap(blocks):
        return nn.ModuleList(map(Checkpointed, blocks))

    model, run = random_model(kind, 3), balanced_run(kernels)
    more = counted_backward(model, run, "none", wrap) - counted_backward(model, run, "none")
    assert more == recomputed_flops(model, run, "full", stops_early=True)


@pytest.mark.parametrize("kernels", ["fused attention", "every score", "dropout"])
@pytest.mark.parametrize("kind", ORDINARY_KINDS)
def test_an_attention_core_that_stops_early_computes_less(kind, kernels):
    """On real tensors: on meta tensors there is no fused attention."""
    model, run = random_model(kind, 3), balanced_run(kernels)
    core = attend
    if not run.kernels.is_attention_fused:
        core = partial(attend_materialised, dropout_fraction=run.kernels.dropout_fraction)
    q, k, v = (
        torch.ones(2, 8, heads, model.head_dim, requires_grad=True)
        for heads in (model.num_heads, model.num_kv_heads, model.num_kv_heads)
    )
    plain = count_flops(lambda: core(q, k, v))
    early = count_flops(lambda: torch_checkpoint(core, q, k, v, use_reentrant=False))
    expected = recomputed_flops(model, run, "selective", stops_early=True)
    assert model.num_layers * (early.backward_flops - plain.backward_flops) == expected


def traced_peak(model: ModelConfig, run: RunConfig, size: int) -> int:
    """Peak of activations and temporaries; the result's gradient is a tensor of its own."""
    with fake_tensors():
        layers, x = layers_of(model, run, "full", size), between_layers(model, run)
        scale = torch.ones_like(x)
        trace = trace_memory(lambda: (layers(x) * scale).sum().backward(), layers, x, scale)
    return max(trace.working_bytes)


# A wide layer keeps the bytes of many boundaries, so one layer is best; a narrow one of few.
@pytest.mark.parametrize(("ffn_size", "num_layers", "best"), [(170, 5, 1), (8, 17, 2)])
def test_a_trace_peaks_where_the_formula_says(ffn_size, num_layers, best):
    """The trace adds the same bytes for each segment size: the backward pass of one layer."""
    model = ModelConfig(
        num_layers=num_layers, hidden_size=64, num_heads=4, ffn_size=ffn_size, vocab_size=50
    )
    run = RunConfig(micro_batch_size=2, seq_len=32, precision=precision("fp32"))
    sizes = (1, 2, 3, 5, num_layers)  # short segments, the best among them, and the longest
    peaks = {size: traced_peak(model, run, size) for size in sizes}
    extra = {peak - segment_peak_bytes(model, run, size) for size, peak in peaks.items()}
    assert len(extra) == 1
    assert min(sizes, key=lambda size: segment_peak_bytes(model, run, size)) == best


@pytest.mark.parametrize("kind", ORDINARY_KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_the_peak_is_that_of_a_simulation(kind, seed):
    """An independent oracle: boundaries on a stack, backward through one segment after another."""
    model, run = random_model(kind, seed), random_run("dropout", seed)
    model = ModelConfig(**vars(model) | {"num_layers": 7 + seed})
    u = boundary_bytes(model, run)
    layer = kept_bytes(model, run, "none") // model.num_layers
    for size in range(1, model.num_layers + 1):
        numbers = list(range(model.num_layers))
        segments = [numbers[n : n + size] for n in range(0, model.num_layers, size)]
        peaks = []
        while segments:
            last = segments.pop()
            peaks.append(len(segments) * u + len(last) * layer)
        assert segment_peak_bytes(model, run, size) == max(peaks)


KORTHIKANTI = Kernels(is_attention_fused=False, dropout_fraction=0.1)


def test_selective_recomputation_of_gpt_3():
    """5 a s / h = 80 of 34 + 80 (and statistics): 70.2 %, for 4 s / (72 h + 12 s) of the FLOPs."""
    model, run = preset("GPT-3-175B"), RunConfig(seq_len=2048, kernels=KORTHIKANTI)
    kept = {policy: kept_bytes(model, run, policy) for policy in POLICIES}
    assert kept["none"] - kept["selective"] == 96 * 5 * 96 * 2048**2
    assert round(1 - kept["selective"] / kept["none"], 3) == 0.702
    assert kept["full"] == 96 * 2 * 2048 * 12288
    parts = forward_flops(model, 1, 2048)
    training = 3 * (sum(parts.values()) - parts["head"])
    exact = training * 4 * 2048 // (72 * 12288 + 12 * 2048)
    assert recomputed_flops(model, run, "selective") == exact
    assert 2 * recomputed_flops(model, run, "selective", stops_early=True) == exact
    assert recomputed_flops(model, run, "full") * 3 == training


def test_the_square_root_of_the_layers_is_not_the_best_number_of_segments():
    """80 layers that keep 20.27 boundaries each: sqrt(80 * 20.27) = 40.3, and not sqrt(80) = 9."""
    model, run = preset("Llama-3-70B"), RunConfig(seq_len=8192)
    layer = kept_bytes(model, run, "none") / model.num_layers
    assert round(sqrt(model.num_layers * layer / boundary_bytes(model, run)), 1) == 40.3
    peaks = {size: segment_peak_bytes(model, run, size) for size in range(1, 81)}
    assert min(peaks, key=peaks.__getitem__) == 2
    assert peaks[9] > 1.9 * peaks[2]


def test_segments_keep_an_input_each():
    assert segment_bytes(7, 3, 12, 50) == {"after_forward": 36, "peak": 162}
    assert segment_bytes(7, 9, 12, 50) == {"after_forward": 12, "peak": 350}


def test_flops_of_one_layer_are_those_of_a_model_by_its_layers():
    model, kernels = random_model("grouped", 3), Kernels(is_attention_fused=False)
    run = RunConfig(micro_batch_size=2, seq_len=8, kernels=kernels)
    of_layer = recomputed_flops_of_layer(model, 2, 8)
    for policy in ("full", "selective"):
        for suffix, stops_early in (("", False), ("_early", True)):
            flops = recomputed_flops(model, run, policy, stops_early=stops_early)
            assert model.num_layers * of_layer[policy + suffix] == flops


def test_a_plan_is_the_cheapest_of_all_that_fit():
    rows = {"none": (10, 0), "selective": (6, 1), "attention": (4, 2), "full": (1, 4)}
    options = [
        {"name": name, "kept_bytes": kept, "recomputed_flops": flops}
        for name, (kept, flops) in rows.items()
    ]
    for cap in range(3, 45):
        every = (
            (sum(rows[name][1] for name in names), names)
            for names in combinations_with_replacement(rows, 4)
            if sum(rows[name][0] for name in names) <= cap
        )
        flops, _ = min(every, default=(0, ()))
        plan = cheapest_plan(4, options, cap)
        assert sum(plan.values()) == (4 if cap >= 4 else 0)
        assert sum(count * rows[name][0] for name, count in plan.items()) <= cap
        assert sum(count * rows[name][1] for name, count in plan.items()) == flops


def test_wrong_arguments_are_rejected():
    model, run = random_model("grouped", 0), RunConfig(seq_len=4)
    with pytest.raises(ValueError, match="no policy 'some'; there are none, selective, full"):
        kept_bytes(model, run, "some")
    with pytest.raises(ValueError, match="layers_per_segment must be above zero, got 0"):
        segment_peak_bytes(model, run, 0)
    with pytest.raises(ValueError, match="give a model without experts, or stops_early=False"):
        recomputed_flops(random_model("experts", 0), run, "full", stops_early=True)
    with pytest.raises(ValueError, match="give a model without latent_attention"):
        kept_bytes(random_model("latent", 0), run, "selective")
