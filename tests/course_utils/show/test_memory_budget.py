"""Memory bars: the numbers of the caption, and where they fit."""

import pytest

from course_utils.configs import RunConfig
from course_utils.show.memory_budget import memory_over_length, memory_parts, training_memory

DEFAULTS = {"micro_batch_size": 1, "attention": "fused", "recomputation": "none"}


def test_parts_of_llama_8b_at_8192():
    parts = memory_parts("Llama-3-8B", RunConfig(seq_len=8192, is_loss_fp32=True))
    assert parts["weights"] == parts["gradients"] == 2 * 8_030_261_248
    assert parts["optimizer states"] == 12 * 8_030_261_248
    # 32 layers; token ids, last norm with its statistics, input of the head
    around = 8192 * (8 + 2 * 4096 + 4 + 2 * 4096)
    assert parts["activations"] == 44_059_066_368 + around


@pytest.mark.parametrize(
    ("model", "recipe", "words"),
    [
        # 16 * 1,235,814,400 bytes of state and 8,183,693,312 of one sequence are 27.96 GB
        ("Llama-3.2-1B", "bf16", "28.0 GB counted, which fits on A100-40, A100-80, H200."),
        ("Llama-3-8B", "fp32", "GB counted, more than any of these devices has."),
    ],
)
def test_caption_says_where_it_fits(model, recipe, words):
    assert words in training_memory(model, seq_len=4096, recipe=recipe, **DEFAULTS).caption


def test_recomputation_helps_only_with_activations():
    caption = memory_over_length("Llama-3-8B", "written out").caption
    assert "8,192 tokens 317.5 GB without recomputation, 176.8 with selective" in caption
    assert "140.7 with full" in caption


def test_the_axis_stands_still_and_a_bar_that_leaves_it_says_how_long_it_is():
    small, large = (
        training_memory(model, seq_len=32_768, recipe="bf16", **DEFAULTS).figure.axes[0]
        for model in ("Llama-3.2-1B", "Llama-3-8B")
    )
    assert small.get_xlim() == large.get_xlim()
    beyond = [
        [text.get_text() for text in ax.texts if "→" in text.get_text()] for ax in (small, large)
    ]
    assert beyond == [[], ["322 GB →"]]
