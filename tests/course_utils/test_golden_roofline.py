"""Golden values of profiling and roofline, by formulas and by instruments.

Counts are equal; a rate is compared to the digits that are stated.
"""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from course_utils.configs import ModelConfig, device, preset
from course_utils.formulas import roofline
from course_utils.formulas.serving import cache_bytes, served_tokens_per_second
from course_utils.instruments import count_bytes, fake_tensors, profile
from course_utils.reference import Transformer
from course_utils.reference.generation import Cache, generate, hidden_states

LLAMA = preset("Llama-3-8B")
LLAMA_1B = replace(preset("Llama-3.2-1B"), is_tied=False)
MISTRAL = replace(LLAMA, vocab_size=32000)
LLAMA_2 = replace(MISTRAL, num_kv_heads=32, ffn_size=11008)
RIDGE = 295.3  # of an H100 in bf16


def decoded(hardware, num_sequences, context):
    """Tokens/s where the cache is only read, without the new tokens; the exercise moves them."""
    chip = device(hardware)
    moved = roofline.step_bytes(LLAMA, num_sequences, context, "decode")["weights"]
    moved += cache_bytes(LLAMA, num_sequences, context, 2)
    operation = roofline.decode_flops(LLAMA, num_sequences, context), moved
    rates = chip.dense_flops_per_second("bf16"), chip.bandwidth_bytes_per_second
    return round(num_sequences / roofline.roofline_seconds([operation], *rates))


def with_new_tokens(num_sequences, context):
    a100 = device("A100-80")
    return round(roofline.decode_tokens_per_second(LLAMA, a100, num_sequences, context))


def context_like_weights(num_sequences):
    """Cached tokens of each sequence whose keys and values are as many bytes as the weights."""
    weights = roofline.step_bytes(LLAMA, num_sequences, 1, "decode")["weights"]
    one = roofline.step_bytes(LLAMA, num_sequences, 1, "decode")["cache_written"]
    return weights // one


def intensity_of_cache(model):
    """FLOPs of one more cached token, for each byte of it that is read."""
    more, fewer = (roofline.decode_flops(model, 1, n) for n in (9, 8))
    return (more - fewer) / roofline.step_bytes(model, 1, 1, "decode")["cache_written"]


FORMULAS = {
    "bytes of a product": (
        [roofline.product_bytes(*each) for each in ((7, 3, 5, 2), (2, 3, 5, 4))],
        [142, 124],
    ),
    "tokens/s, A100, context 256": (
        [decoded("A100-80", n, 256) for n in (1, 8, 64, 256)],
        [136, 1_068, 7_606, 20_602],
    ),
    "tokens/s, A100, context 1256": (
        [decoded("A100-80", n, 1256) for n in (1, 8, 64, 256)],
        [134, 999, 5_108, 9_133],
    ),
    "tokens/s, A100, context 8192": (
        [decoded("A100-80", n, 8192) for n in (1, 8)],
        [127, 691],
    ),
    "tokens/s, A100, new tokens moved, too": (
        [with_new_tokens(*each) for each in ((1, 256), (64, 256), (64, 1256), (60, 8192))],
        [136, 7_598, 5_105, 0],
    ),
    "tokens/s, H100, context 256": (
        [decoded("H100-SXM", n, 256) for n in (1, 8, 64, 256)],
        [223, 1_754, 12_496, 36_336],
    ),
    "tokens/s of equal quality": (
        [
            round(served_tokens_per_second(each, device("A100-80"), 1, 756))
            for each in (LLAMA_2, MISTRAL, preset("Mixtral-8x7B"))
        ],
        [150, 142, 80],
    ),
    "context whose cache is as large as the weights": (
        [context_like_weights(n) for n in (1, 16, 64, 256)],
        [114_516, 7_157, 1_789, 447],
    ),
    "intensity of the cache": (
        [
            intensity_of_cache(each)
            for each in (LLAMA_2, LLAMA, preset("Llama-3-405B"), replace(LLAMA, num_kv_heads=1))
        ],
        [1, 4, 16, 32],
    ),
    "an epoch with 1, 2, 4 and 8 workers": (
        [roofline.epoch_seconds(120, 40, workers, 100) for workers in (1, 2, 4, 8)],
        [12_040, 6_080, 4_120, 4_120],
    ),
}


@pytest.mark.parametrize(("computed", "golden"), FORMULAS.values(), ids=FORMULAS)
def test_formulas(computed, golden):
    assert computed == golden


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
