"""Where is measured, and how large: a GPU at real sizes, or a CPU at toy sizes to try the code."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from course_utils.configs import Kernels, ModelConfig, RunConfig, precision, preset
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
    """A device, and whether sizes are toys."""

    device: str
    is_tiny: bool

    def model(self, name: str) -> ModelConfig:
        """A preset, or the toy in its place."""
        return TINY if self.is_tiny else preset(name)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to train: what a step does, and in which numbers."""

    model_name: str
    seq_len: int
    policy: str
    precision: str = "bf16"
    adamw: str = "fused"
    is_attention_fused: bool = True
    micro_batch_size: int = 1

    def run(self) -> RunConfig:
        """The same as the course's configs say it."""
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
    """A training of the reference, with its layers recomputed where the case says so."""
    training = Training(model, case.run(), adamw=case.adamw, device=device)
    if case.policy == "full":
        training.model.blocks = in_segments(training.model.blocks)
    return training


def surviving(work: Callable[[], Row]) -> Row:
    """A row, or what went wrong: one configuration that does not fit must not end the others."""
    try:
        return work()
    except torch.OutOfMemoryError:
        trouble = "out of memory"
    except (RuntimeError, ValueError) as error:
        trouble = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return {"trouble": trouble}


def forget_the_last() -> None:
    """Free what an earlier configuration held: compiled modules are cycles, with all their weights.

    And compile anew: what was compiled for one size would next be compiled for sizes that vary.
    """
    torch.compiler.reset()
    gc.collect()
    torch.cuda.empty_cache()  # does nothing without a GPU
