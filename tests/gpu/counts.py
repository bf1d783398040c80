"""Does a GPU keep the same bytes and spend the same FLOPs as a CPU? Every kind of block on both."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import product

import torch

from course_utils.configs import Experts, Kernels, LatentAttention, ModelConfig
from course_utils.instruments import count_flops, count_saved_bytes
from course_utils.reference import Block
from tests.gpu.setting import Row, Setting, row_or_trouble

SIZES = {"num_layers": 1, "hidden_size": 256, "num_heads": 4, "ffn_size": 384, "vocab_size": 512}
LATENT = LatentAttention(
    kv_rank=64, q_rank=96, nope_head_dim=64, rope_head_dim=32, value_head_dim=64
)
EXPERTS = Experts(num_experts=4, experts_per_token=2, expert_ffn_size=128, num_shared_experts=1)

# Heads are 64 wide, which every fused kernel supports.
BLOCKS = {
    "GPT": ModelConfig(**SIZES, is_gated=False, has_biases=True, num_positions=128),
    "multi-head": ModelConfig(**SIZES),
    "grouped": ModelConfig(**SIZES, num_kv_heads=2),
    "multi-query": ModelConfig(**SIZES, num_kv_heads=1),
    "latent": ModelConfig(**SIZES, latent_attention=LATENT),
    "experts": ModelConfig(**SIZES, num_kv_heads=2, experts=EXPERTS),
}
KERNELS = (
    Kernels(),
    Kernels(is_gate_fused=True),
    Kernels(is_attention_fused=False),
    Kernels(is_attention_recomputed=True),
    Kernels(is_attention_fused=False, is_attention_recomputed=True),
    Kernels(is_attention_fused=False, dropout_fraction=0.1),
)
DTYPES = (torch.float32, torch.bfloat16)
NUM_SEQUENCES, SEQ_LEN = 2, 96


def measure(setting: Setting) -> Iterator[Row]:
    """A row for each block, kernels and dtype, with bytes and FLOPs on both devices."""
    choices = KERNELS[:1] if setting.is_tiny else KERNELS
    for kind, kernels, dtype in product(BLOCKS, choices, DTYPES):
        counts = {
            device: row_or_trouble(partial(count_block, kind, kernels, dtype, device))
            for device in ("cpu", setting.device)
        }
        yield {
            "kind": kind,
            **asdict(kernels),
            "dtype": str(dtype),
            "on_cpu": counts["cpu"],
            "on_device": counts[setting.device],
            "agree": counts["cpu"] == counts[setting.device],
        }


def count_block(kind: str, kernels: Kernels, dtype: torch.dtype, device: str) -> Row:
    """Bytes that autograd keeps of one block, and FLOPs of its two passes."""
    torch.manual_seed(0)
    block = Block(BLOCKS[kind], 0, device, dtype, kernels)
    shape = (NUM_SEQUENCES, SEQ_LEN, SIZES["hidden_size"])
    x = torch.randn(shape).to(device, dtype)
    saved_bytes = count_saved_bytes(lambda: block(x), block).total_bytes
    return {"saved_bytes": saved_bytes, **count_flops(lambda: block(x))._asdict()}
