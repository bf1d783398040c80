"""Where does the time of one token's training go, if every part runs at the rate of its kind?

Three kinds of work: matrix products, attention, and all the kernels in between that only read and
write. What is fused into one kernel is a convention, and stated: each kernel reads its inputs once
and writes its outputs once, in bf16.

    kernel                          numbers of a token and layer, forward
    norm, twice                     2 h each
    addition to the residual, twice 3 h each
    GELU, or SiLU times its factor  2 f, or 3 f

Backward they move twice as much. The loss moves three tensors of v numbers in fp32, logits,
log-probabilities and their gradient, each written once and read once.

    >>> model = preset("Llama-3.2-1B")
    >>> token_work(model, token_forward_flops(model, 4096), is_recomputed=False)["elementwise"]
    7308288
"""

from collections.abc import Mapping

from course_utils.configs import BF16_BYTES, FP32_BYTES, ModelConfig
from course_utils.formulas.flops import forward_flops

LOSS_TENSORS, WRITTEN_AND_READ = 3, 2
FLASH_QUARTERS = 7  # half of 1 + 2.5 full forward passes, since backward makes scores again


def elementwise_bytes(model: ModelConfig) -> dict[str, int]:
    """Bytes of one token that kernels without products move.

    Returns:
        ``layers``, forward and all of them; ``loss``, forward and backward.
    """
    h, f = model.hidden_size, model.ffn_size
    numbers = 2 * 2 * h + 2 * 3 * h + (3 if model.is_gated else 2) * f
    return {
        "layers": BF16_BYTES * model.num_layers * numbers,
        "loss": LOSS_TENSORS * WRITTEN_AND_READ * FP32_BYTES * model.vocab_size,
    }


def token_work(
    model: ModelConfig, forward: Mapping[str, int], is_recomputed: bool
) -> dict[str, int]:
    """What training on one token takes: FLOPs of products and of attention, bytes of the rest.

    Attention counts half of its square: kernels skip what is hidden. Its backward pass takes 2.5
    times its forward pass. Where layers run again, all but the head does.

    Args:
        model: Sizes.
        forward: FLOPs of one token's forward pass, attention in full: ``projections``,
            ``attention``, ``feed_forward`` and ``head``.
        is_recomputed: Whether every layer runs again.

    Returns:
        ``products`` and ``attention`` in FLOPs, ``elementwise`` in bytes.
    """
    layers = forward["projections"] + forward["feed_forward"]
    moved, again = elementwise_bytes(model), int(is_recomputed)
    return {
        "products": 3 * (layers + forward["head"]) + again * layers,
        "attention": (FLASH_QUARTERS + 2 * again) * forward["attention"] // 4,
        "elementwise": (3 + again) * moved["layers"] + moved["loss"],
    }


def token_forward_flops(model: ModelConfig, seq_len: int) -> dict[str, int]:
    """FLOPs of one token's forward pass by part, attention in full."""
    parts = forward_flops(model, 1, seq_len)
    return {name: each // seq_len for name, each in parts.items() if name != "router"}
