"""Published sweeps of layouts, and rates by shape and size, as rows with types.

Nothing here was measured by the course. The first lines of each file name its source, its licence
and the unit of each column; `README.md` beside them says what to beware of.

    >>> run = playbook_runs()[0]
    >>> run.name, round(run.step_seconds, 2), run.memory_gib
    ('1.34 on 1: d 4 p 2 t 1, stage 1, b 4, m 16', 3.37, 41.76)
"""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
NUM_ROWS = {
    "h100_gemm_rates": 93,
    "h100_nccl_rates": 189,
    "h200_attention_rates": 10,
    "playbook_bandwidth": 21,
    "playbook_failed": 1578,
    "playbook_runs": 1728,
    "simumax_a100_pcie": 30,
    "simumax_b200": 43,
    "simumax_bandwidths": 44,
    "simumax_rates": 785,
}
HEADS = {1.34: 32, 3.57: 32, 8.86: 32, 80.0: 64}  # of the Playbook's models, by their size
# Rows labelled 80.0 whose printed utilisation counts another model, by 10^9 parameters.
SHARED_HEADS, FEWER_WORDS = (70.6, 8), (78.7, 49152)


@dataclass(frozen=True, kw_only=True)
class PlaybookRun:
    """One layout of the Ultra-Scale Playbook's sweep: nanotron, 8 H100 a node, one step.

    Attributes:
        size: 10⁹ parameters, as the sweep names its models.
        num_layers: Layers L.
        hidden_size: Width h.
        ffn_size: Inner width f.
        vocab_size: Words v.
        num_heads: Query heads a.
        num_kv_heads: Key and value heads.
        seq_len: Tokens of a sequence.
        nodes: Nodes of eight devices.
        data: Replicas d.
        pipeline: Stages p, with 1F1B.
        tensor: Tensor ranks t, with sequence parallelism.
        zero_stage: 0 or 1.
        micro_batch: Sequences b of a pass.
        num_micro_batches: Passes m of a replica in the step.
        tokens_per_second_per_device: The measurement; zero if the layout failed.
        memory_gib: Largest reserved memory of rank 0, on the first stage, in 2³⁰ bytes.
        counted_params: 10⁹ parameters that its printed utilisation counts.
    """

    size: float
    num_layers: int
    hidden_size: int
    ffn_size: int
    vocab_size: int
    num_heads: int
    num_kv_heads: int
    seq_len: int
    nodes: int
    data: int
    pipeline: int
    tensor: int
    zero_stage: int
    micro_batch: int
    num_micro_batches: int
    tokens_per_second_per_device: float
    memory_gib: float
    counted_params: float

    @property
    def num_devices(self) -> int:
        """Devices ``d p t``."""
        return self.data * self.pipeline * self.tensor

    @property
    def num_sequences(self) -> int:
        """Sequences of a step on all devices."""
        return self.data * self.micro_batch * self.num_micro_batches

    @property
    def step_seconds(self) -> float:
        """Seconds of the step."""
        tokens = self.num_sequences * self.seq_len
        return tokens / (self.tokens_per_second_per_device * self.num_devices)

    @property
    def name(self) -> str:
        """Size, nodes and layout in a few letters."""
        layout = f"d {self.data} p {self.pipeline} t {self.tensor}, stage {self.zero_stage}"
        passes = f"b {self.micro_batch}, m {self.num_micro_batches}"
        return f"{self.size} on {self.nodes}: {layout}, {passes}"


@dataclass(frozen=True, kw_only=True)
class SimuMaxRun:
    """One run of Megatron-LM on eight devices that SimuMax's authors measured, b = 1.

    Attributes:
        case: Its name in the source; for A100 the row's number.
        model: As in the source, ``"llama3-70b"``, cut to fewer layers.
        device: ``"B200"`` or ``"A100-PCIe-80"``.
        num_layers: Layers L.
        seq_len: Tokens of a sequence.
        data: Replicas d, with ZeRO-1.
        pipeline: Stages p.
        tensor: Tensor ranks t, with sequence parallelism.
        context: Ranks that share a sequence.
        num_micro_batches: Passes m of a replica in the step.
        step_seconds: The measurement on B200; zero where none is printed.
        tflops: 10¹² FLOP/s a device, read from a picture on A100; zero where there is none.
        allocated_gib: Largest allocated memory by rank, where it was measured in this very run.
        simulated_time_percent: How far SimuMax's own prediction of time, or of rate, is off.
        simulated_memory_percent: The same of the fullest rank's memory.
    """

    case: str
    model: str
    device: str
    num_layers: int
    seq_len: int
    data: int
    pipeline: int
    tensor: int
    context: int
    num_micro_batches: int
    step_seconds: float
    tflops: float
    allocated_gib: tuple[float, ...]
    simulated_time_percent: float
    simulated_memory_percent: float


def header(table: str) -> list[str]:
    """The first lines of a table: source, licence, units, what is not given."""
    return [line for line in _lines(table) if line.startswith("#")]


@functools.cache
def rows(table: str) -> tuple[dict[str, str], ...]:
    """All rows of a table, as printed.

    Args:
        table: A key of `NUM_ROWS`.
    """
    return tuple(csv.DictReader(line for line in _lines(table) if not line.startswith("#")))


def _lines(table: str) -> list[str]:
    return (FOLDER / f"{table}.csv").read_text(encoding="utf-8").splitlines()


def playbook_runs() -> tuple[PlaybookRun, ...]:
    """All layouts of the Playbook's sweep that ran."""
    return _playbook("playbook_runs")


def playbook_failures() -> tuple[PlaybookRun, ...]:
    """All layouts of the sweep that failed: out of memory or crashed, not told apart."""
    return _playbook("playbook_failed")


@functools.cache
def _playbook(table: str) -> tuple[PlaybookRun, ...]:
    return tuple(map(_playbook_run, rows(table)))


def _playbook_run(row: dict[str, str]) -> PlaybookRun:
    size, counted = float(row["model_params_1e9"]), float(row["implied_params_1e9"] or 0)
    heads = HEADS[size]
    return PlaybookRun(
        size=size,
        num_layers=int(row["num_layers"]),
        hidden_size=int(row["hidden_size"]),
        ffn_size=int(row["ffn_size"]),
        vocab_size=FEWER_WORDS[1] if counted == FEWER_WORDS[0] else int(row["vocab_size"]),
        num_heads=heads,
        num_kv_heads=SHARED_HEADS[1] if counted == SHARED_HEADS[0] else heads,
        seq_len=int(row["seq_len"]),
        nodes=int(row["nodes"]),
        data=int(row["data"]),
        pipeline=int(row["pipeline"]),
        tensor=int(row["tensor"]),
        zero_stage=int(row["zero_stage"]),
        micro_batch=int(row["micro_batch_sequences"]),
        num_micro_batches=int(row["accumulation"]),
        tokens_per_second_per_device=float(row["tokens_per_second_per_device"] or 0),
        memory_gib=float(row["memory_gb"] or 0),
        counted_params=counted,
    )


@functools.cache
def simumax_runs(device: str) -> tuple[SimuMaxRun, ...]:
    """All of SimuMax's measured runs on a device.

    Args:
        device: ``"B200"`` or ``"A100-PCIe-80"``.
    """
    table = {"B200": "simumax_b200", "A100-PCIe-80": "simumax_a100_pcie"}[device]
    return tuple(_simumax_run(n, row) for n, row in enumerate(rows(table)))


def _simumax_run(number: int, row: dict[str, str]) -> SimuMaxRun:
    case = row.get("case", str(number))
    ranks = range(8) if row.get("memory_measured_in_case") == case else ()
    time = row.get("printed_step_error_percent") or row.get("printed_tflops_error_percent")
    memory = row.get("printed_alloc_error_percent") or row.get("printed_memory_error_percent")
    return SimuMaxRun(
        case=case,
        model=row["model"],
        device=row["device"],
        num_layers=int(row["num_layers"] or 0),
        seq_len=int(row["seq_len"]),
        data=int(row["data"]),
        pipeline=int(row["pipeline"]),
        tensor=int(row["tensor"]),
        context=int(row.get("context") or 1),
        num_micro_batches=int(row["micro_batches"]),
        step_seconds=float(row.get("real_step_ms") or 0) / 1e3,
        tflops=float(row.get("real_tflops") or 0),
        allocated_gib=tuple(float(row[f"real_alloc_mib_rank{n}"]) / 1024 for n in ranks),
        simulated_time_percent=float(time or 0),
        simulated_memory_percent=float(memory or 0),
    )
