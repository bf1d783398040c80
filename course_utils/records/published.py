"""Published training runs, a row for each, with their sources.

Nothing here was measured by the course. Each table counts FLOPs in its own way, so a utilisation is
comparable within a table, and across tables only after `SOURCES[...].counts` is undone.

    >>> [run.published_mfu_percent for run in one_node_runs("A100-80") if run.name == "1b at 4,096"]
    [59.0]
"""

import csv
import functools
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NODE = 8  # devices


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a table comes from.

    Attributes:
        where: Document and place in it.
        counts: Which FLOPs its utilisation counts.
        not_given: What would be needed to compute a row, and is not printed.
    """

    where: str
    counts: str
    not_given: str


SOURCES = {
    "mosaicml_llm_foundry": Source(
        where="mosaicml/llm-foundry, scripts/train/benchmarking/README.md; sizes from its "
        "yamls/pretrain",
        counts="MFU: 6N + 12 L h s for each token, attention in full; HFU: 4/3 of that where all "
        "layers run again",
        not_given="links between devices, for A100-40 the script",
    ),
    "korthikanti_2022_table5": Source(
        where="Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer "
        "Models, table 5",
        counts="seconds of a step, no FLOPs",
        not_given="links between devices",
    ),
    "megatron_2021": Source(
        where="Megatron-LM repository, picture cases_april2021",
        counts="FLOP/s with attention in full and layers that run again",
        not_given="micro-batch; tensor and pipeline sizes are inferred from the devices of a model",
    ),
    "megatron_core_h100": Source(
        where="Megatron-LM repository, picture model_table, core r0.8",
        counts="FLOP/s with attention in full, nothing that runs again",
        not_given="micro-batch, chunks of a pipeline's stages",
    ),
}

# Where llm-foundry contradicts itself on a run on eight devices in bf16: its script sweep.sh (at
# 8c8dd48) starts it with another micro-batch or accumulation than the table prints, or the table of
# July 2023 (README.md at c6cfb42) has it over 3 % faster, with older software. By device, model,
# length and printed micro-batch.
CONTRADICTIONS = {
    ("A100-80", "30b", 8192, 1): "its script has micro-batch 2, accumulation 1",
    ("A100-80", "13b", 2048, 2): "its script has micro-batch 2, accumulation 1",
    ("A100-80", "7b", 2048, 6): "its script has micro-batch 6, accumulation 1",
    ("A100-80", "1b", 2048, 14): "its script has micro-batch 14, accumulation 1",
    ("A100-80", "760m", 1024, 48): "34,888 tokens/s in the table before",
    ("A100-80", "760m", 512, 96): "36,719 tokens/s in the table before",
    ("A100-80", "125m", 2048, 32): "its script has micro-batch 40, accumulation 2",
    ("H100", "30b", 8192, 1): "its script has micro-batch 2, accumulation 1",
}


@dataclass(frozen=True, kw_only=True)
class FoundryRun:
    """One row of llm-foundry's tables: an MPT with f = 4 h, GELU and a tied head.

    Software of 2023: torch 1.13 to 2.1, the first FlashAttention.

    Attributes:
        model: Its size in words, as ``"1b"``.
        hidden_size: Width h.
        num_heads: Heads a, without sharing.
        num_layers: Layers L.
        ffn_size: Inner width f.
        vocab_size: Rows of the embedding.
        num_parameters: All parameters N, positions among them.
        seq_len: Tokens of a sequence.
        num_devices: Devices, eight in a node.
        device: As in `course_utils.configs.DEVICES`; ``"H100"`` for the SXM one.
        precision: ``"amp_bf16"``, ``"bf16"`` or ``"amp_fp8"``.
        mode: What is kept in which precision, as FSDP names it.
        sharding: ``"FULL_SHARD"`` or ``"SHARD_GRAD_OP"``.
        micro_batch_sequences: Sequences of a pass on one device.
        accumulation: Passes of a step.
        global_batch_sequences: Sequences of a step on all devices.
        recompute_all_layers: One if each layer runs again, else zero.
        tokens_per_second_per_device: The measurement.
        published_mfu_percent: As printed.
        published_hfu_percent: As printed.
    """

    model: str
    hidden_size: int
    num_heads: int
    num_layers: int
    ffn_size: int
    vocab_size: int
    num_parameters: int
    seq_len: int
    num_devices: int
    device: str
    precision: str
    mode: str
    sharding: str
    micro_batch_sequences: int
    accumulation: int
    global_batch_sequences: int
    recompute_all_layers: int
    tokens_per_second_per_device: float
    published_mfu_percent: float
    published_hfu_percent: float

    @property
    def name(self) -> str:
        """Model and length, as ``"1b at 4,096"``."""
        return f"{self.model} at {self.seq_len:,}"

    @property
    def contradiction(self) -> str:
        """In what its source contradicts itself on this run; empty where it does not.

        Known of runs on one node in bf16. No script has those on A100-40.
        """
        if self.device == "A100-40":
            return "no script has it"
        key = self.device, self.model, self.seq_len, self.micro_batch_sequences
        return CONTRADICTIONS.get(key, "")


def published(table: str) -> list[dict[str, str]]:
    """All rows of a table, as printed.

    Args:
        table: A key of `SOURCES`.
    """
    with (FOLDER / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@functools.cache
def foundry_runs() -> tuple[FoundryRun, ...]:
    """All rows of llm-foundry."""
    kinds: dict[str, Any] = {each.name: each.type for each in fields(FoundryRun)}
    return tuple(
        FoundryRun(**{name: kinds[name](value) for name, value in row.items()})
        for row in published("mosaicml_llm_foundry")
    )


def one_node_runs(device: str) -> list[FoundryRun]:
    """Rows of llm-foundry in bf16 on one node, each without a choice.

    Args:
        device: ``"A100-80"``, ``"H100"`` (both with weights kept in fp32) or ``"A100-40"`` (all in
            bf16).
    """
    return [
        run
        for run in foundry_runs()
        if run.device == device and run.num_devices <= NODE and run.precision != "amp_fp8"
    ]
