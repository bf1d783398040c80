"""Which sizes define a transformer? `ModelConfig` holds these and no derived quantities.

Conventions: `num_kv_heads` counts the heads of keys and values (`num_heads` without sharing, one in
multi-query attention); `ffn_size` is the inner width of the feed-forward block.

    >>> sizes = {"num_layers": 2, "hidden_size": 64, "ffn_size": 160, "vocab_size": 256}
    >>> ModelConfig(**sizes, num_heads=8).head_dim
    8
"""

from dataclasses import dataclass, fields

from course_utils.configs.validation import require_divides, require_positive


@dataclass(frozen=True, kw_only=True)
class LatentAttention:
    """Sizes of multi-head latent attention, which caches one small vector for all heads.

    Attributes:
        kv_rank: Width of the latent vector of keys and values.
        q_rank: Width of the latent vector of queries.
        nope_head_dim: Width of the part of a query or key head without position.
        rope_head_dim: Width of the part with a rotary position; all key heads share one.
        value_head_dim: Width of a value head.
    """

    kv_rank: int
    q_rank: int
    nope_head_dim: int
    rope_head_dim: int
    value_head_dim: int

    def __post_init__(self) -> None:
        """Reject sizes that make no sense."""
        require_positive("LatentAttention", **vars(self))


@dataclass(frozen=True, kw_only=True)
class Experts:
    """Sizes of a mixture of experts in place of one feed-forward block.

    Attributes:
        num_experts: Experts to which a token may be routed.
        experts_per_token: Experts to which each token is routed.
        expert_ffn_size: Inner width of one expert.
        num_shared_experts: Experts that process every token, beside the routed ones.
        num_dense_layers: First layers that keep an ordinary feed-forward block.
    """

    num_experts: int
    experts_per_token: int
    expert_ffn_size: int
    num_shared_experts: int = 0
    num_dense_layers: int = 0

    def __post_init__(self) -> None:
        """Reject sizes that make no sense."""
        require_positive(
            "Experts",
            num_experts=self.num_experts,
            experts_per_token=self.experts_per_token,
            expert_ffn_size=self.expert_ffn_size,
        )
        if self.experts_per_token > self.num_experts:
            raise ValueError(
                f"Experts: experts_per_token = {self.experts_per_token} must not exceed "
                f"num_experts = {self.num_experts}"
            )


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes of a decoder-only transformer.

    Attributes:
        num_layers: Transformer blocks L.
        hidden_size: Width h of the residual stream.
        num_heads: Query heads a.
        ffn_size: Inner width f of the feed-forward block.
        vocab_size: Rows v of the embedding, padding included.
        num_kv_heads: Key and value heads; by default as many as query heads.
        head_dim: Width of one head; by default ``hidden_size / num_heads``.
        is_gated: Whether the feed-forward block has three matrices (SwiGLU) or two (GELU).
        is_tied: Whether the output head shares the embedding's matrix.
        has_biases: Whether linear layers and norms have biases (GPT) or not (Llama).
        num_positions: Rows of a learned position table; zero with rotary positions.
        latent_attention: Sizes of latent attention, if it replaces grouped-query attention.
        experts: Sizes of a mixture of experts, if it replaces the feed-forward block.
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    ffn_size: int
    vocab_size: int
    num_kv_heads: int = 0
    head_dim: int = 0
    is_gated: bool = True
    is_tied: bool = False
    has_biases: bool = False
    num_positions: int = 0
    latent_attention: LatentAttention | None = None
    experts: Experts | None = None

    def __post_init__(self) -> None:
        """Fill in the sizes left out and reject sizes that make no sense."""
        require_positive(
            "ModelConfig",
            num_layers=self.num_layers,
            hidden_size=self.hidden_size,
            num_heads=self.num_heads,
            ffn_size=self.ffn_size,
            vocab_size=self.vocab_size,
        )
        if not self.num_kv_heads:
            object.__setattr__(self, "num_kv_heads", self.num_heads)
        if not self.head_dim:
            require_divides("ModelConfig", hidden_size=self.hidden_size, num_heads=self.num_heads)
            object.__setattr__(self, "head_dim", self.hidden_size // self.num_heads)
        require_positive("ModelConfig", num_kv_heads=self.num_kv_heads, head_dim=self.head_dim)
        require_divides("ModelConfig", num_heads=self.num_heads, num_kv_heads=self.num_kv_heads)

    def __repr__(self) -> str:
        """The call that builds it, without sizes that equal their default."""
        derived = {"num_kv_heads": self.num_heads, "head_dim": self.hidden_size // self.num_heads}
        shown = (
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)
            if getattr(self, each.name) != derived.get(each.name, each.default)
        )
        return f"ModelConfig({', '.join(shown)})"
