"""Run the trainers of unit 09, 10, 11 or 12 on real ranks, and compare them with one rank.

    torchrun --standalone --nproc-per-node 2 -m course_utils.torchrun 09
    python -m course_utils.torchrun 09 --dry-run 64

`docs/torchrun.md` leads through it.
"""

import argparse
import math
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from course_utils.configs.validation import require_positive
from course_utils.distributed.call_matching import position_in_words, ranks_in_words
from course_utils.torchrun.joining import NoGpuError, RealComm, join, join_fakes
from course_utils.torchrun.own_functions import functions_of
from course_utils.torchrun.running import Outcome, run_trial
from course_utils.torchrun.trials import TRIALS, Sizes, Trial

DTYPES = {"float64": torch.float64, "float32": torch.float32}
DIFFERS, REFUSED = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as one rank: 0 if all is as on one rank, 1 if not, 2 if it cannot start."""
    asked = _parsed(arguments)
    try:
        comm, is_dry = _joined(asked), asked.dry_run is not None
        sizes = Sizes(asked.rows, asked.width, asked.steps, DTYPES[asked.dtype], comm.device)
        trials = TRIALS[asked.unit]
        for trial in trials:
            trial.require_divisible(sizes, comm.size)
        names = [name for trial in trials for name in trial.functions]
        own = functions_of(asked.own, names) if asked.own else {}
    except ValueError as error:
        if dist.is_initialized():
            dist.destroy_process_group()
        if os.environ.get("RANK", "0") == "0" or isinstance(error, NoGpuError):
            print(error, file=sys.stderr)
        return REFUSED
    try:
        is_equal = [
            _dry(comm, trial, own, sizes) if is_dry else _real(comm, trial, own, sizes)
            for trial in trials
        ]
    except Exception as error:
        _leave(error, comm)
    dist.destroy_process_group()
    return 0 if all(is_equal) else DIFFERS


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="course_utils.torchrun", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("unit", choices=TRIALS, help="whose trainers to run")
    parser.add_argument("--own", type=Path, help="your notebook: your functions, where written")
    parser.add_argument("--backend", choices=["nccl", "gloo"], help="nccl where there are GPUs")
    parser.add_argument("--rows", type=int, default=64, help="of the batch, or tokens")
    parser.add_argument("--width", type=int, default=64, help="numbers in a row")
    parser.add_argument("--steps", type=int, default=3, help="of the optimizer")
    parser.add_argument("--dtype", choices=DTYPES, default="float64")
    parser.add_argument("--limit-seconds", type=float, default=60.0, help="for one call")
    parser.add_argument("--dry-run", type=int, metavar="RANKS", help="no processes: one of so many")
    parser.add_argument("--rank", type=int, default=0, help="which one, in a dry run")
    return parser.parse_args(arguments)


def _joined(asked: argparse.Namespace) -> RealComm:
    require_positive("course_utils.torchrun", rows=asked.rows, width=asked.width, steps=asked.steps)
    if asked.dry_run is not None:
        return join_fakes(asked.dry_run, asked.rank)
    return join(asked.unit, asked.backend, asked.limit_seconds)


def _real(comm: RealComm, trial: Trial, own: dict[str, Any], sizes: Sizes) -> bool:
    """Run a trainer on all ranks, compare, and say so; whether it is as on one rank."""
    if trial.has_messages:
        comm.connect_neighbours()
    outcome = run_trial(comm, trial, own, sizes)
    if comm.rank == 0:
        print(f"{_heading(trial, own, sizes)}, {comm.size} ranks, {dist.get_backend()}")
        print(_verdict(outcome))
        print(f"{'rank':>6}{'calls':>8}{'bytes sent':>16}{'seconds':>10}")
        columns = zip(outcome.calls, outcome.sent_bytes, outcome.seconds, strict=True)
        for rank, (calls, sent_bytes, seconds) in enumerate(columns):
            print(f"{rank:>6}{calls:>8}{sent_bytes:>16,}{seconds:>10.4f}")
    for name, difference in outcome.differences.items():
        if not difference <= outcome.allowed:
            print(f"rank {comm.rank}: {_in_words(name, difference)}", file=sys.stderr)
    sys.stdout.flush()
    return outcome.is_equal


def _heading(trial: Trial, own: dict[str, Any], sizes: Sizes) -> str:
    whose = ", ".join(
        f"{name} ({'yours' if name in own else 'the course’s'})" for name in trial.functions
    )
    dtype = str(sizes.dtype).removeprefix("torch.")
    return f"\n{trial.what}: {whose}; {sizes.rows} rows of {sizes.width} in {dtype}"


def _verdict(outcome: Outcome) -> str:
    worst = max(outcome.largest)
    if outcome.is_equal:
        return (
            f"As on one rank: the largest difference is {worst:.1e} of the largest number, and "
            f"adding in another order may change {outcome.allowed:.1e}."
        )
    wrong = [rank for rank, each in enumerate(outcome.largest) if not each <= outcome.allowed]
    return (
        f"NOT as on one rank, on {ranks_in_words(wrong)}: adding in another order may change "
        f"{outcome.allowed:.1e} of the largest number."
    )


def _in_words(name: str, difference: float) -> str:
    if math.isinf(difference):
        return f"`{name}` is missing or has another shape"
    if math.isnan(difference):
        return f"`{name}` has a NaN"
    return f"`{name}` differs by {difference:.1e} of its largest number"


def _dry(comm: RealComm, trial: Trial, own: dict[str, Any], sizes: Sizes) -> bool:
    """Run a trainer as one rank whose calls move nothing, and say what it would send."""
    trial.on_ranks(comm, {**trial.functions, **own}, sizes)
    print(f"{_heading(trial, own, sizes)}, rank {comm.rank} of {comm.size}, dry")
    print(
        f"{comm.counted.num_calls} calls, {comm.counted.sent_bytes:,} bytes sent; no numbers came"
    )
    comm.counted.num_calls = comm.counted.sent_bytes = 0
    return True


def _leave(error: Exception, comm: RealComm) -> NoReturn:
    """Say which rank failed where, and end at once: others may wait in a call for ever."""
    traceback.print_exception(error)
    where = position_in_words(comm.counted.last_call)
    print(f"rank {comm.rank} raised {type(error).__name__} {where}: {error}", file=sys.stderr)
    _end(DIFFERS)


def _end(code: int) -> NoReturn:
    """End this process at once.

    Python's own way ends threads of torch in an order that aborts some runs ("terminate called
    without an active exception") after all has been said.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _end(main())
