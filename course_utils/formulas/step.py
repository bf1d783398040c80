"""One step of training: what model, how many sequences, spread how.

>>> step = Step(preset("Llama-3-8B"), 4096, 256, Plan(data=4, pipeline=2, micro_batch=2))
>>> step.num_micro_batches, step.num_tokens
(32, 8192)
"""

from dataclasses import dataclass

from course_utils.configs import BF16_BYTES, ModelConfig, Plan


@dataclass(frozen=True)
class Step:
    """A step of a dense transformer on a plan.

    Attributes:
        model: Its sizes; the vocabulary as the framework pads it.
        seq_len: Tokens of a sequence.
        num_sequences: Of a step, on all devices.
        plan: How they are spread.
    """

    model: ModelConfig
    seq_len: int
    num_sequences: int
    plan: Plan

    def __post_init__(self) -> None:
        """Refuse by name what no measured row has.

        Raises:
            ValueError: If there is latent attention, experts, or another of these.
        """
        unknown = {
            "latent attention": self.model.latent_attention is not None,
            "experts": self.model.experts is not None,
            "tensor ranks that do not divide the heads": self.model.num_heads % self.plan.tensor,
        }
        for name, is_wanted in unknown.items():
            if is_wanted:
                raise ValueError(
                    f"{name}: such a step cannot be planned here, as no measured run would show "
                    "how far the plan is off"
                )

    @property
    def num_micro_batches(self) -> int:
        """Passes m of a replica."""
        return self.plan.num_micro_batches(self.num_sequences)

    @property
    def num_tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.plan.micro_batch * self.seq_len

    @property
    def hidden_bytes(self) -> int:
        """One hidden state of a micro-batch in bf16."""
        return BF16_BYTES * self.num_tokens * self.model.hidden_size
