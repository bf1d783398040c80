"""Published sweeps of layouts, and rates by shape and size.

Nothing here was measured by the course. The first lines of each file name its source, its licence
and its units; `README.md` beside them says what to beware of.

    >>> run = runs("playbook_runs")[0]
    >>> run.name, round(run.step_seconds, 2), run.first_rank_gib
    ('1.34 on 1: d 4 p 2 t 1, stage 1, b 4, m 16', 3.37, 41.76)
"""

import csv
import functools
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Run:
    """One layout of a Llama that was tried; a number that is not given is zero.

    Attributes:
        model: Its name in the source; the Playbook names it by 10⁹ parameters.
        device: ``"H100"``, ``"B200"`` or ``"A100-PCIe-80"``.
        num_layers: Layers L.
        hidden_size: Width h.
        num_heads: Query heads a.
        num_kv_heads: Key and value heads.
        ffn_size: Inner width f.
        vocab_size: Words v, not padded.
        is_tied: One if embedding and head are one matrix.
        seq_len: Tokens of a sequence.
        nodes: Nodes of eight devices.
        data: Replicas d.
        pipeline: Stages p, with 1F1B.
        tensor: Tensor ranks t, with sequence parallelism.
        context: Ranks that share a sequence.
        zero_stage: What the replicas shard.
        micro_batch: Sequences b of a pass.
        num_micro_batches: Passes m of a replica in the step.
        step_seconds: Seconds of a step.
        first_rank_gib: Memory of the first rank: reserved in the Playbook, else allocated.
        last_rank_gib: The same of the last rank.
        counted_params: 10⁹ parameters that the Playbook's printed utilisation counts.
        simulated_time_percent: How far SimuMax's own prediction is off.
        simulated_memory_percent: The same for the fullest rank's memory.
    """

    model: str
    device: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    ffn_size: int
    vocab_size: int
    is_tied: int
    seq_len: int
    nodes: int
    data: int
    pipeline: int
    tensor: int
    context: int
    zero_stage: int
    micro_batch: int
    num_micro_batches: int
    step_seconds: float
    first_rank_gib: float
    last_rank_gib: float
    counted_params: float
    simulated_time_percent: float
    simulated_memory_percent: float

    @property
    def num_sequences(self) -> int:
        """Sequences of a step on all devices."""
        return self.data * self.micro_batch * self.num_micro_batches

    @property
    def name(self) -> str:
        """Model, nodes and layout in a few letters."""
        layout = f"d {self.data} p {self.pipeline} t {self.tensor}, stage {self.zero_stage}"
        passes = f"b {self.micro_batch}, m {self.num_micro_batches}"
        return f"{self.model} on {self.nodes}: {layout}, {passes}"


def header(table: str) -> list[str]:
    """The first lines of a table: source, licence, units, what is not given."""
    return [line for line in _lines(table) if line.startswith("#")]


@functools.cache
def rows(table: str) -> tuple[dict[str, str], ...]:
    """All rows of a table, as they stand in the file.

    Args:
        table: Name of a file beside this module.
    """
    return tuple(csv.DictReader(line for line in _lines(table) if not line.startswith("#")))


@functools.cache
def runs(table: str) -> tuple[Run, ...]:
    """All rows of a table of runs.

    Args:
        table: ``"playbook_runs"``, ``"playbook_failed"`` (out of memory or crashed, not told
            apart), ``"simumax_b200"`` or ``"simumax_a100_pcie"``.
    """
    kinds: dict[str, Any] = {each.name: each.type for each in fields(Run)}
    return tuple(
        Run(**{name: kind(row.get(name) or 0) for name, kind in kinds.items()})
        for row in rows(table)
    )


def _lines(table: str) -> list[str]:
    return (FOLDER / f"{table}.csv").read_text(encoding="utf-8").splitlines()
