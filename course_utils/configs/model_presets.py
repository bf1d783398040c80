"""Published models by name; what trains them is `machine_of` a device's name.

    >>> preset("Llama-3-8B").num_kv_heads
    8

Sources: the papers and model cards named beside each; sizes as in the published weights.
"""

from typing import Any

from course_utils.configs.model import Experts, LatentAttention, ModelConfig
from course_utils.configs.validation import find_named

MODELS = {
    # Radford et al. 2019; the published weights have 124M parameters.
    "GPT-2-124M": ModelConfig(
        num_layers=12,
        hidden_size=768,
        num_heads=12,
        ffn_size=3072,
        vocab_size=50257,
        num_positions=1024,
        is_gated=False,
        is_tied=True,
        has_biases=True,
    ),
    # Brown et al. 2020, table 2.1.
    "GPT-3-175B": ModelConfig(
        num_layers=96,
        hidden_size=12288,
        num_heads=96,
        ffn_size=49152,
        vocab_size=50257,
        num_positions=2048,
        is_gated=False,
        is_tied=True,
        has_biases=True,
    ),
    # Llama 3.2 model card.
    "Llama-3.2-1B": ModelConfig(
        num_layers=16,
        hidden_size=2048,
        num_heads=32,
        num_kv_heads=8,
        ffn_size=8192,
        vocab_size=128256,
        is_tied=True,
    ),
    # Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3 (and the next two).
    "Llama-3-8B": ModelConfig(
        num_layers=32,
        hidden_size=4096,
        num_heads=32,
        num_kv_heads=8,
        ffn_size=14336,
        vocab_size=128256,
    ),
    "Llama-3-70B": ModelConfig(
        num_layers=80,
        hidden_size=8192,
        num_heads=64,
        num_kv_heads=8,
        ffn_size=28672,
        vocab_size=128256,
    ),
    "Llama-3-405B": ModelConfig(
        num_layers=126,
        hidden_size=16384,
        num_heads=128,
        num_kv_heads=8,
        ffn_size=53248,
        vocab_size=128256,
    ),
    # Jiang et al. 2024, Mixtral of Experts, table 1.
    "Mixtral-8x7B": ModelConfig(
        num_layers=32,
        hidden_size=4096,
        num_heads=32,
        num_kv_heads=8,
        ffn_size=14336,
        vocab_size=32000,
        experts=Experts(num_experts=8, experts_per_token=2, expert_ffn_size=14336),
    ),
    # DeepSeek-AI 2024, DeepSeek-V3 technical report, section 4.2; without multi-token prediction.
    "DeepSeek-V3": ModelConfig(
        num_layers=61,
        hidden_size=7168,
        num_heads=128,
        head_dim=128,
        ffn_size=18432,
        vocab_size=129280,
        latent_attention=LatentAttention(
            kv_rank=512, q_rank=1536, nope_head_dim=128, rope_head_dim=64, value_head_dim=128
        ),
        experts=Experts(
            num_experts=256,
            experts_per_token=8,
            expert_ffn_size=2048,
            num_shared_experts=1,
            num_dense_layers=3,
        ),
    ),
}


def gpt(hidden_size: int, num_heads: int, **others: Any) -> ModelConfig:
    """A GPT as the lectures count it: f = 4 h, biases, LayerNorm, GELU.

    Args:
        hidden_size: Width h.
        num_heads: Heads a.
        others: More fields of `ModelConfig`; by default one layer, one token in the vocabulary and
            one position.
    """
    sizes = {"num_layers": 1, "vocab_size": 1, "num_positions": 1, **others}
    sizes |= {"hidden_size": hidden_size, "num_heads": num_heads, "ffn_size": 4 * hidden_size}
    return ModelConfig(**sizes, is_gated=False, has_biases=True)


def preset(name: str) -> ModelConfig:
    """Look up a published model by name.

    Raises:
        ValueError: If there is no such preset; the message lists similar names.
    """
    return find_named("preset", name, MODELS)
