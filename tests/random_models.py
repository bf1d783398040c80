"""Small random models of every kind: plain and gated, shared heads, latent attention, experts.

And small random runs of them, with every choice of kernels.
"""

import random

from course_utils.configs import (
    Experts,
    Kernels,
    LatentAttention,
    ModelConfig,
    RunConfig,
    precision,
)

KINDS = ("GPT", "multi-head", "grouped", "multi-query", "tied", "latent", "experts", "both")
ORDINARY_KINDS = KINDS[:5]
KERNELS = {
    "fused attention": Kernels(),
    "fused attention and gate": Kernels(is_gate_fused=True),
    "every score": Kernels(is_attention_fused=False),
    "every score, fused gate, dropout": Kernels(
        is_attention_fused=False, is_gate_fused=True, dropout_fraction=0.1
    ),
    "recomputed attention": Kernels(is_attention_fused=False, is_attention_recomputed=True),
    "recomputed attention, dropout": Kernels(
        is_attention_fused=False, is_attention_recomputed=True, dropout_fraction=0.1
    ),
    "dropout": Kernels(is_attention_fused=False, dropout_fraction=0.1),
}


def random_model(kind: str, seed: int) -> ModelConfig:
    """A model of a kind with small, mostly odd sizes."""
    rng = random.Random(f"{kind}/{seed}")
    num_kv_heads, group, head_dim = rng.choice((1, 2, 3)), rng.choice((2, 3)), rng.choice((2, 4, 6))
    if kind == "multi-query":
        num_kv_heads = 1
    if kind in ("multi-head", "GPT"):
        group = 1
    num_heads = num_kv_heads * group
    sizes: dict = {
        "num_layers": rng.randint(1, 3),
        "hidden_size": num_heads * head_dim,
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "ffn_size": rng.randrange(5, 60, 2),
        "vocab_size": rng.randrange(11, 120, 2),
    }
    if kind == "GPT":
        sizes |= {"is_gated": False, "has_biases": True, "is_tied": True, "num_positions": 64}
    if kind == "tied":
        sizes |= {"is_tied": True}
    if kind in ("latent", "both"):
        sizes["latent_attention"] = LatentAttention(
            kv_rank=rng.randint(3, 9),
            q_rank=rng.randint(3, 9),
            nope_head_dim=rng.randint(1, 7),
            rope_head_dim=rng.choice((2, 4)),
            value_head_dim=rng.randint(1, 7),
        )
    if kind in ("experts", "both"):
        sizes["experts"] = Experts(
            num_experts=rng.choice((4, 8)),
            experts_per_token=rng.choice((1, 2, 4)),
            expert_ffn_size=rng.randrange(3, 21, 2),
            num_shared_experts=rng.choice((0, 1, 2)),
            num_dense_layers=rng.choice((0, 1)),
        )
    return ModelConfig(**sizes)


def random_run(kernels: str, seed: int) -> RunConfig:
    """A run on the CPU: one sequence or several, one token or an odd number, both precisions."""
    rng = random.Random(f"{kernels}/{seed}")
    chosen = precision(("bf16", "fp32")[seed % 2])
    return RunConfig(
        micro_batch_size=(1, rng.randint(2, 4))[seed // 2 % 2],
        seq_len=1 if seed == 0 else rng.randrange(3, 40, 2),
        precision=chosen,
        kernels=KERNELS[kernels],
        is_loss_fp32=seed % 3 == 0,
        layer_norm_statistic_bytes=chosen.activation_bytes,
    )
