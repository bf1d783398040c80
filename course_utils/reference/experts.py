"""A mixture of experts with balanced routing and fixed capacity; it also runs on meta tensors.

Every expert picks the tokens that score highest for it (expert choice, Zhou et al. 2022), always
the same number: `tokens * experts_per_token / num_experts`. So each expert has the same work, which
the balanced routing of Mixtral and DeepSeek aims at, and no shape depends on the data.
"""

import torch
from torch import Tensor, nn

from course_utils.configs import DEFAULT_KERNELS, Experts, Kernels, ModelConfig
from course_utils.reference.fused import gated
from course_utils.reference.layers import FeedForward


class MixtureOfExperts(nn.Module):
    """Gated experts, a router, and shared experts that see every token."""

    def __init__(
        self,
        model: ModelConfig,
        sizes: Experts,
        device: str,
        dtype: torch.dtype = torch.float32,
        kernels: Kernels = DEFAULT_KERNELS,
    ) -> None:
        """Stack the matrices of all experts in three tensors, for batched products."""
        super().__init__()
        h, f, count = model.hidden_size, sizes.expert_ffn_size, sizes.num_experts
        self.sizes, self.kernels = sizes, kernels
        self.router = nn.Linear(h, count, bias=False, device=device, dtype=dtype)
        self.up, self.gate, self.down = (
            nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))
            for shape in ((count, h, f), (count, h, f), (count, f, h))
        )
        for weight in (self.up, self.gate, self.down):
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
        shared = sizes.num_shared_experts * f
        self.shared = FeedForward(model, shared, device, dtype, kernels) if shared else None

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        tokens = x.flatten(0, 1)
        scores = self.router(tokens).softmax(dim=-1)
        weight, chosen = scores.topk(self._capacity(len(tokens)), dim=0)  # (capacity, experts)
        routed = tokens[chosen.t()]  # (experts, capacity, h)
        inner = gated(routed @ self.gate, routed @ self.up, self.kernels)
        weighted = (inner @ self.down) * weight.t()[..., None]
        out = torch.zeros_like(tokens).index_add(0, chosen.t().flatten(), weighted.flatten(0, 1))
        if self.shared is not None:
            out = out + self.shared(tokens)
        return out.view_as(x)

    def _capacity(self, num_tokens: int) -> int:
        """Tokens per expert."""
        routed = num_tokens * self.sizes.experts_per_token
        if routed % self.sizes.num_experts:
            raise ValueError(
                f"balanced routing needs tokens * experts_per_token = {routed} to be a multiple of "
                f"num_experts = {self.sizes.num_experts}: choose another batch or length"
            )
        return routed // self.sizes.num_experts
