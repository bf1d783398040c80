"""MFU in each convention, compared with published records and numbers worked out by hand."""

import pytest

from course_utils.configs import ModelConfig, RunConfig, device, preset
from course_utils.formulas.parameters import parameters
from course_utils.formulas.recomputation import recomputed_flops
from course_utils.formulas.utilisation import (
    CONVENTIONS,
    hardware_flops_utilisation,
    model_flops_per_token,
    model_flops_utilisation,
    tokens_per_second_at,
    utilisation_by_convention,
)
from tests.random_models import KINDS, random_model

LLAMA = preset("Llama-3.2-1B")
A100, H100 = (device(name).dense_flops_per_second("bf16") for name in ("A100-80", "H100-SXM"))

# MosaicML's 1b: 24 layers of 2,048, GELU, biases, a vocabulary of 50,368 and 4,096 positions.
MPT_1B = ModelConfig(
    num_layers=24,
    hidden_size=2048,
    num_heads=16,
    ffn_size=8192,
    vocab_size=50368,
    num_positions=4096,
    is_gated=False,
    is_tied=True,
    has_biases=True,
)

# Llama-3.2-1B at 4,096 tokens: N = 1,235,814,400, of which 128,256 * 2,048 in the embedding; the
# attention takes 12 * 16 * 2,048 * 4,096 = 1,610,612,736 in full. Exact is below PaLM by parameters
# that are in no product: norms, 6 * 33 * 2,048.
LLAMA_AT_4096 = {
    "6N": (7_414_886_400, 0.822),
    "6N without embedding": (5_838_876_672, 0.647),
    "PaLM": (9_025_499_136, 1.000),
    "exact": (9_025_093_632, 1.000),
    "causal": (8_219_787_264, 0.911),
}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_flops_per_token_of_llama_3_2_1b(convention):
    flops, ratio = LLAMA_AT_4096[convention]
    assert model_flops_per_token(LLAMA, 4096, convention) == flops
    assert round(flops / LLAMA_AT_4096["exact"][0], 3) == ratio


# MosaicML's llm-foundry, benchmarking tables: tokens per second of a device, its peak, MFU in %.
RECORDS = [(17_807, A100, 59.0), (16_856, A100, 55.85), (38_535, H100, 40.26)]


@pytest.mark.parametrize(("tokens_per_second", "peak", "percent"), RECORDS)
def test_records_of_mosaicml_in_their_convention(tokens_per_second, peak, percent):
    assert sum(parameters(MPT_1B).values()) == 1_320_144_896
    mfu = model_flops_utilisation(MPT_1B, 4096, tokens_per_second, peak, "PaLM")
    assert 100 * mfu == pytest.approx(percent, abs=0.02)  # the tables round tokens and percent


def test_the_same_run_with_causal_attention():
    """59.0 % becomes 51.8 %: 12 * 24 * 2,048 * 4,096 / 2 FLOPs less, and no norms or biases."""
    mfu = model_flops_utilisation(MPT_1B, 4096, 17_807, A100, "causal")
    assert round(100 * mfu, 1) == 51.8


def test_four_conventions_of_a_small_model():
    """1,512 counted, 192 of them in the core; 260 parameters; 10**10 tokens on an A100."""
    small = ModelConfig(num_layers=2, hidden_size=4, num_heads=1, ffn_size=3, vocab_size=5)
    assert sum(parameters(small).values()) == 260
    shares = utilisation_by_convention(small, 260, 2, 10**10, device("A100-80"))
    counts = {"counted": 1512, "causal": 1416, "six_n": 1560, "six_n_and_attention": 1752}
    assert shares == {name: count * 10**10 / A100 for name, count in counts.items()}


@pytest.mark.parametrize(("percent", "expected"), [(40, 13_828), (50, 17_285), (60, 20_742)])
def test_tokens_per_second_of_the_practice_problem(percent, expected):
    assert round(tokens_per_second_at(LLAMA, 4096, percent / 100, A100, "exact")) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_conventions_are_in_order(kind):
    flops = {name: model_flops_per_token(random_model(kind, 2), 12, name) for name in CONVENTIONS}
    assert flops["6N without embedding"] < flops["6N"] < flops["PaLM"]
    assert flops["causal"] < flops["exact"]


def test_an_untied_embedding_counts_in_palm_though_it_is_a_lookup():
    model = preset("Llama-3-8B")
    palm, exact = (model_flops_per_token(model, 8192, name) for name in ("PaLM", "exact"))
    assert palm - exact == 6 * (128_256 * 4096 + 65 * 4096)  # and the norms


def test_hardware_flops_include_recomputation():
    """Full recomputation: a forward pass of the layers, a third of all but the head's 6 h v."""
    run = RunConfig(seq_len=4096)
    again = recomputed_flops(LLAMA, run, "full") // run.seq_len
    flops = model_flops_per_token(LLAMA, 4096, "exact")
    assert again == (flops - 6 * 2048 * 128_256) // 3
    mfu, hfu = (hardware_flops_utilisation(flops, each, 10_000, A100) for each in (0, again))
    assert mfu == model_flops_utilisation(LLAMA, 4096, 10_000, A100, "exact")
    assert hfu / mfu == pytest.approx(1 + again / flops)


def test_full_recomputation_is_four_thirds_of_the_mfu():
    """MosaicML's 7b with recomputation: 54.84 % and 73.12 %."""
    flops = 3 * 10**10
    mfu, hfu = (hardware_flops_utilisation(flops, each, 1000, A100) for each in (0, 10**10))
    assert hfu / mfu == pytest.approx(73.12 / 54.84, abs=1e-4)


def test_wrong_arguments_are_rejected():
    with pytest.raises(ValueError, match="there is no convention 'Palm'; near it: PaLM"):
        model_flops_per_token(LLAMA, 4096, "Palm")
    with pytest.raises(ValueError, match="seq_len must be above zero"):
        model_flops_per_token(LLAMA, 0, "6N")
    with pytest.raises(ValueError, match="tokens_per_second must be above zero"):
        model_flops_utilisation(LLAMA, 4096, 0, A100, "6N")
    with pytest.raises(ValueError, match="peak_flops_per_second must be above zero"):
        model_flops_utilisation(LLAMA, 4096, 1.0, 0, "6N")
    with pytest.raises(ValueError, match=r"lies between 0 and 1, got 40"):
        tokens_per_second_at(LLAMA, 4096, 40, A100, "6N")
    with pytest.raises(ValueError, match="recomputed_flops_per_token must be zero or above"):
        hardware_flops_utilisation(1, -1, 1.0, A100)
