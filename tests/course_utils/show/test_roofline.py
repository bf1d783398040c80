"""Rooflines and traces: what the dots are, and what is said of them."""

import pytest
import torch

from course_utils.configs import preset
from course_utils.instruments import count_bytes, fake_tensors
from course_utils.reference import Transformer
from course_utils.reference.generation import Cache, hidden_states
from course_utils.show import device_roof, rooflines, steps_on_roofline
from course_utils.show.roofline import Roof, cache_intensity, intensities


def test_a_roof_is_a_slope_and_then_flat():
    roof = Roof(1000, 10)
    assert roof.ridge == 100
    assert [roof.at(each) for each in (1, 50, 100, 500)] == [10, 500, 1000, 1000]
    assert device_roof("H100-SXM").ridge == pytest.approx(295.3, abs=0.1)


def test_the_caption_says_how_much_of_the_roof_is_reached():
    roofs = {"one thread": (1e12, 1e10), "A100-80": device_roof("A100-80")}
    picture = rooflines(roofs, {"slow": (10, 5e10), "quick": (500, 9e11)})
    assert "ran on one thread, at 50% to 90% of its roof" in picture.caption
    assert "one thread" in picture.svg()
    assert "quick" in picture.svg()
    assert "allow" in rooflines(roofs, {}).caption


def test_a_nearer_memory_is_dashed_and_named():
    near = {"a cache": 5e10}
    picture = rooflines({"one thread": (1e12, 1e10)}, {"add": (1 / 12, 4e9)}, near)
    assert "ran on one thread, at 480% to 480% of its roof" in picture.caption
    assert "a cache" in picture.svg()
    assert "stroke-dasharray" in picture.svg()


def test_devices_of_one_peak_share_a_label():
    roofs = {name: device_roof(name) for name in ("A100-80", "H100-SXM", "H200")}
    assert "H100-SXM, H200" in rooflines(roofs, {}).svg()


@pytest.mark.parametrize("num_sequences", [1, 4])
def test_intensity_of_decode_is_that_of_a_counted_step(num_sequences):
    with fake_tensors():
        model = Transformer(preset("Llama-3-8B"), dtype=torch.bfloat16)
        cache = Cache(model, num_sequences, 129)
        cache.length = 128
        ids = torch.zeros(num_sequences, 1, dtype=torch.long)
        with torch.no_grad():
            moved = count_bytes(
                lambda: model.head(hidden_states(model, ids, cache)),
                weights=model.parameters(),
                cache=cache.tensors,
            )
    num_bytes = sum(moved.of("weights")) + sum(moved.of("cache"))
    assert intensities("Llama-3-8B", num_sequences, 128)["decode"] == moved.flops / num_bytes


def test_with_long_contexts_decode_falls_to_the_heads_that_share_a_key():
    assert cache_intensity("Llama-3-8B") == 4
    far = intensities("Llama-3-8B", 1024, 2**20)["decode"]
    assert 4 < far < 4.2


def test_a_cache_that_does_not_fit_is_said():
    assert "GB more" not in steps_on_roofline("Llama-3-8B", "H100-SXM", 64, 1024).caption
    assert "need 4,334 GB more" in steps_on_roofline("Llama-3-8B", "H100-SXM", 1024, 32768).caption


def test_steps_on_a_roof():
    picture = steps_on_roofline("Llama-3-8B", "H100-SXM", 1, 1024)
    assert "decode can reach 0.35% of the peak. The ridge is at 295 FLOP/B." in picture.caption
    assert "decode: 1.03 FLOP/B" in picture.svg()
