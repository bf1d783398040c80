"""Device and sizes of a measurement: a GPU at real sizes, or a CPU at toy sizes to try the code."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from course_utils.configs import Kernels, ModelConfig, RunConfig, precision, preset
from course_utils.instruments.preconditions import device_name
from course_utils.reference import Training
from course_utils.reference.recomputation import in_segments

Row = dict[str, Any]

TINY = ModelConfig(
    num_layers=2,
    hidden_size=64,
    num_heads=4,
    num_kv_heads=2,
    ffn_size=96,
    vocab_size=128,
    is_tied=True,
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A device, and whether sizes are tiny."""

    device: str
    is_tiny: bool

    @property
    def name(self) -> str:
        """As the GPU reports it, or ``"CPU"``."""
        return device_name(torch.device(self.device))

    def model(self, name: str) -> ModelConfig:
        """A preset, or the tiny model in its place."""
        return TINY if self.is_tiny else preset(name)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training configuration."""

    model_name: str
    seq_len: int
    policy: str
    precision: str = "bf16"
    adamw: str = "fused"
    is_attention_fused: bool = True
    micro_batch_size: int = 1

    def run(self) -> RunConfig:
        """The same as a config of the course."""
        return RunConfig(
            micro_batch_size=self.micro_batch_size,
            seq_len=self.seq_len,
            precision=precision(self.precision),
            kernels=Kernels(
                is_attention_fused=self.is_attention_fused,
                is_attention_recomputed=self.policy == "selective",
            ),
            is_loss_fp32=True,
        )


def build(case: Case, model: ModelConfig, device: str) -> Training:
    """The reference training of a case, with its layers in segments for full recomputation."""
    training = Training(model, case.run(), adamw=case.adamw, device=device)
    if case.policy == "full":
        training.model.blocks = in_segments(training.model.blocks)
    return training


def row_or_trouble(measure: Callable[[], Row]) -> Row:
    """A row, or what went wrong, so that one failing configuration does not end the others."""
    try:
        return measure()
    except torch.OutOfMemoryError:
        trouble = "out of memory"
    except (RuntimeError, ValueError) as error:
        trouble = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return {"trouble": trouble}


def reset_device() -> None:
    """Free what earlier configurations held: compiled modules are cycles, with all their weights.

    Also resets the compiler, which would compile the next size as a dynamic shape.
    """
    torch.compiler.reset()
    gc.collect()
    torch.cuda.empty_cache()  # does nothing without a GPU
