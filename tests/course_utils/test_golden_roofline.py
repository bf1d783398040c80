"""Golden values of profiling and roofline, by instruments.

Counts are equal; a rate is compared to the digits that are stated.
"""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from course_utils.configs import ModelConfig, preset
from course_utils.instruments import count_bytes, fake_tensors, profile
from course_utils.reference import Transformer
from course_utils.reference.generation import Cache, generate, hidden_states

LLAMA = preset("Llama-3-8B")
LLAMA_1B = replace(preset("Llama-3.2-1B"), is_tied=False)
RIDGE = 295.3  # of an H100 in bf16


def softmax_written_out(x):
    exponents = (x - x.amax(-1, keepdim=True)).exp()
    return exponents / exponents.sum(-1, keepdim=True)


def gelu_written_out(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def norm_written_out(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * GAIN


def norm_in_place(x):
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return (x * torch.rsqrt(length.square() / 512 + 1e-6)).mul_(GAIN)


GATE, GAIN = torch.ones(256, 512), torch.ones(512)


FUSIONS = {
    "GELU written out": (gelu_written_out, 18.0),
    "GELU": (F.gelu, 2.0),
    "softmax written out": (softmax_written_out, 8.008),
    "softmax": (lambda x: x.softmax(-1), 2.0),
    "norm written out": (norm_written_out, 7.016),
    "norm with a fused length, in place": (norm_in_place, 5.023),
    "gate": (lambda x: F.silu(x) * GATE, 5.0),
}


@pytest.mark.parametrize(("call", "golden"), FUSIONS.values(), ids=FUSIONS)
def test_bytes_in_units_of_one_tensor(call, golden):
    x = torch.randn(256, 512)
    assert round(count_bytes(lambda: call(x)).num_bytes / x.nbytes, 3) == golden


def test_products_in_three_profiles():
    """Four layers of seven matrices and a head; backward has two products for each."""
    sizes = ModelConfig(
        num_layers=4, hidden_size=256, num_heads=8, num_kv_heads=4, ffn_size=688, vocab_size=2000
    )
    model, ids = Transformer(sizes), torch.zeros(4, 128, dtype=torch.long)
    cache = Cache(model, 4, 129)

    def infer(length, tokens):
        cache.length = length
        return model.head(hidden_states(model, tokens, cache)[:, -1])

    with torch.no_grad():
        calls = [profile(lambda: infer(0, ids)), profile(lambda: infer(128, ids[:, :1]))]
    calls.append(profile(lambda: model(ids).sum().backward()))
    found = [row["calls"] for each in calls for row in each.rows if row["operator"] == "aten::mm"]
    assert found == [29, 29, 87]


def step(model, num_sequences, seq_len, phase):
    with fake_tensors(), torch.set_grad_enabled(phase == "train"):
        built = Transformer(model, dtype=torch.bfloat16)
        ids = torch.zeros(num_sequences, 1 if phase == "decode" else seq_len, dtype=torch.long)
        if phase == "train":
            return count_bytes(lambda: built(ids).sum().backward())
        cache = Cache(built, num_sequences, seq_len + 1)
        cache.length = seq_len if phase == "decode" else 0
        return count_bytes(lambda: built.head(hidden_states(built, ids, cache)[:, -1]))


@pytest.mark.parametrize(
    ("model", "num_sequences", "seq_len", "golden"),
    [
        (LLAMA, 1, 1024, 1.025),
        (LLAMA, 16, 1024, 14.19),
        (LLAMA, 1, 8192, 1.199),
        (LLAMA_1B, 1, 1024, 1.038),
        (LLAMA_1B, 16, 1024, 13.4),
        (LLAMA_1B, 1, 8192, 1.29),
    ],
)
def test_intensity_of_decoding(model, num_sequences, seq_len, golden):
    """All bytes; activations, a thousandth of them, differ with the operations of a layer."""
    found = step(model, num_sequences, seq_len, "decode").intensity
    assert found == pytest.approx(golden, rel=3e-3)


@pytest.mark.parametrize("phase", ["prefill", "train"])
def test_prefill_and_training_are_compute_bound_in_their_products(phase):
    """All products lie right of the ridge; with what runs between them the small model does not."""
    found = {}
    for model in (LLAMA_1B, LLAMA):
        moved = step(model, 1, 1024, phase)
        multiplying = sum(each.num_bytes for each in moved.operations if each.flops)
        assert moved.flops / multiplying > RIDGE
        found[model] = moved.intensity
    assert found[LLAMA_1B] < RIDGE < found[LLAMA]


def test_flops_of_generating_16_tokens_after_24():
    """Two sequences, two layers. Without a cache, without one but with the last position, with."""
    sizes = ModelConfig(
        num_layers=2, hidden_size=64, num_heads=8, num_kv_heads=2, ffn_size=160, vocab_size=1000
    )
    model, prompt = Transformer(sizes), torch.zeros(2, 24, dtype=torch.long)
    lengths = [torch.zeros(2, n, dtype=torch.long) for n in range(24, 40)]
    whole = sum(count_bytes(lambda ids=each: model(ids)).flops for each in lengths)
    head_of_others = sum(2 * 2 * (each.shape[1] - 1) * 64 * 1000 for each in lengths)
    cached = count_bytes(lambda: generate(model, prompt, 16)).flops
    assert [whole, whole - head_of_others] == [310_779_904, 185_851_904]
    assert [cached + 2 * 2 * 23 * 64 * 1000, cached] == [23_844_864, 17_956_864]
