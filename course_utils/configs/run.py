"""What passes through a model at once, and how does the model compute it?

>>> RunConfig(micro_batch_size=2, seq_len=64).precision.activation_bytes
2
"""

from dataclasses import dataclass

from course_utils.configs.precisions import PRECISIONS, Precision
from course_utils.configs.validation import require_positive


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """How a layer is computed: changes the bytes that it keeps, not its result.

    Attributes:
        is_attention_fused: Whether attention keeps one number per query and head (flash attention)
            instead of every score.
        is_attention_recomputed: Whether the backward pass recomputes scores and weighted values
            (selective recomputation).
        is_gate_fused: Whether a gated feed-forward block keeps only the inputs of its gate.
        dropout_fraction: Of the attention weights and of both blocks' outputs; fused attention has
            no dropout on a CPU.
    """

    is_attention_fused: bool = True
    is_attention_recomputed: bool = False
    is_gate_fused: bool = False
    dropout_fraction: float = 0.0

    def __post_init__(self) -> None:
        """Reject what makes no sense or has no kernel."""
        if not 0 <= self.dropout_fraction < 1:
            raise ValueError(
                f"Kernels: dropout_fraction must be at least 0 and below 1, got "
                f"{self.dropout_fraction!r}"
            )
        if self.dropout_fraction and self.is_attention_fused:
            raise ValueError(
                "Kernels: fused attention has no dropout on a CPU; set is_attention_fused=False "
                "or dropout_fraction=0.0"
            )


DEFAULT_KERNELS = Kernels()


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One micro-batch on one device.

    Attributes:
        micro_batch_size: Sequences b of one forward pass.
        seq_len: Tokens s of each.
        precision: Bytes of each kind of number.
        kernels: How layers are computed.
        is_loss_fp32: Whether logits are converted to fp32 before the loss.
        layer_norm_statistic_bytes: Of a mean or deviation that LayerNorm keeps: 4 on a GPU; on a
            CPU the bytes of an activation.
    """

    micro_batch_size: int = 1
    seq_len: int
    precision: Precision = PRECISIONS["bf16"]
    kernels: Kernels = DEFAULT_KERNELS
    is_loss_fp32: bool = False
    layer_norm_statistic_bytes: int = 4

    def __post_init__(self) -> None:
        """Reject sizes that make no sense."""
        require_positive(
            "RunConfig",
            micro_batch_size=self.micro_batch_size,
            seq_len=self.seq_len,
            layer_norm_statistic_bytes=self.layer_norm_statistic_bytes,
        )
