"""One rank as a process of its own: what `run_ranks` starts, and nobody else.

It reads what to do from a folder, leaves there its journal and what came out, and stays until it is
told to go, so that its end breaks no connection of the others. It goes too when the process is gone
that started it, which it notices by its standard input.
"""

import datetime
import io
import os
import pickle
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import cloudpickle
import torch
import torch.distributed as dist

from course_utils.distributed.call_log import CallLog
from course_utils.distributed.call_matching import CommError, Group
from course_utils.distributed.job import RankJob, RankOutcome
from course_utils.distributed.torch_comm import TorchComm
from course_utils.instruments.randomness import seed_generators


def main(folder: Path, rank: int) -> None:
    """Be one rank from begin to end."""
    may_go = threading.Event()
    threading.Thread(target=_watch_parent, args=(may_go,), daemon=True).start()
    task: RankJob = pickle.loads((folder / "task").read_bytes())
    with (folder / f"journal-{rank}").open("wb", buffering=0) as file:
        outcome = _run(task, folder, rank, CallLog(rank, file))
    sys.stdout.flush()
    sys.stderr.flush()
    whole = folder / f"outcome-{rank}"
    part = whole.with_suffix(".part")
    part.write_bytes(pickle.dumps(outcome))
    part.rename(whole)
    may_go.wait()
    os._exit(0)


def _watch_parent(may_go: threading.Event) -> None:
    """A line says that all are done; the end of the input, that nobody is interested any more."""
    if not os.read(0, 1):
        os._exit(1)
    may_go.set()


def _run(task: RankJob, folder: Path, rank: int, journal: CallLog) -> RankOutcome:
    torch.set_num_threads(1)
    if task.backend == "nccl":
        torch.cuda.set_device(rank)
    try:
        store = dist.FileStore(str(folder / "store"), task.num_ranks)  # type: ignore[attr-defined]
        dist.init_process_group(
            task.backend,
            store=store,
            rank=rank,
            world_size=task.num_ranks,
            timeout=datetime.timedelta(seconds=task.limit_seconds),
        )
        function, args = cloudpickle.loads(task.job)
        seed_generators(task.seed + rank)
        comm = TorchComm(journal, Group(tuple(range(task.num_ranks))))
        result = function(comm, *args)
        journal.require_all_waited()
    except BaseException as error:
        return _failed(error, rank, journal)
    return _returned(result, rank)


def _returned(result: Any, rank: int) -> RankOutcome:
    try:
        return RankOutcome(result=cloudpickle.dumps(result))
    except Exception as error:
        return RankOutcome(
            kind="TypeError",
            message=f"rank {rank} returned a {type(result).__name__} that cannot be sent back "
            f"({error}): return numbers, tensors, or lists and dicts of them",
            at=time.time(),
        )


def _failed(error: BaseException, rank: int, journal: CallLog) -> RankOutcome:
    is_ours = isinstance(error, CommError)  # and says by itself who and where
    name = type(error).__name__
    words = str(error) if is_ours else f"rank {rank} raised {name} {journal.place()}: {error}"
    return RankOutcome(
        error=_pickled(error),
        kind=name,
        message=words,
        trace=_trace(error),
        is_own=name != "BrokenCallError",
        at=time.time(),
    )


def _pickled(error: BaseException) -> bytes | None:
    try:
        return bytes(cloudpickle.dumps(error))
    except Exception:
        return None


def _trace(error: BaseException) -> str:
    """Without the lines of this module."""
    lines = io.StringIO()
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace, file=lines)
    return lines.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
