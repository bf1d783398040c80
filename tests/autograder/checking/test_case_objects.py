"""A case becomes arguments, and words that can be typed back."""

from autograder.checking.case_objects import arguments, case_in_words
from course_utils.configs import LatentAttention, ModelConfig, device

SIZES = {"num_layers": 2, "hidden_size": 8, "num_heads": 2, "ffn_size": 3, "vocab_size": 5}
LATENT = {
    "q_rank": 3,
    "kv_rank": 5,
    "nope_head_dim": 4,
    "rope_head_dim": 2,
    "value_head_dim": 3,
}


def test_models_and_devices_are_made_from_plain_data():
    case = {"model": SIZES | {"latent_attention": LATENT}, "hardware": "H200", "seq_len": 9}
    given = arguments(case)
    assert given["model"].latent_attention == LatentAttention(**LATENT)
    assert given["hardware"] is device("H200")
    assert given["seq_len"] == 9


def test_words_can_be_typed_back():
    words = case_in_words({"model": SIZES, "hardware": "H200", "seq_len": 100_000})
    assert words.endswith("hardware=device('H200'), seq_len=100_000")
    typed = eval(f"dict({words})", {"ModelConfig": ModelConfig, "device": device})
    assert typed["model"] == ModelConfig(**SIZES)
