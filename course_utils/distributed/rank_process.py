"""The process of one rank, started by `run_ranks`.

It reads its job from a folder, and leaves there its call log and its outcome. Then it stays until
its parent lets it exit, so that it breaks no connection of other ranks. It also exits when its
standard input closes, since then its parent is gone.
"""

import datetime
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
from course_utils.distributed.call_matching import (
    BrokenCallError,
    CommError,
    Group,
    position_in_words,
)
from course_utils.distributed.rank_job import RankJob, RankOutcome
from course_utils.distributed.torch_comm import TorchComm
from course_utils.instruments.randomness import seed_generators


def main(folder: Path, rank: int) -> None:
    """Run one rank from start to exit."""
    may_exit = threading.Event()
    threading.Thread(target=_watch_parent, args=(may_exit,), daemon=True).start()
    job: RankJob = pickle.loads((folder / "job").read_bytes())
    with (folder / f"calls-{rank}").open("wb", buffering=0) as file:
        outcome = _run(job, folder, rank, CallLog(rank, file))
    sys.stdout.flush()
    sys.stderr.flush()
    whole = folder / f"outcome-{rank}"
    part = whole.with_suffix(".part")
    part.write_bytes(pickle.dumps(outcome))
    part.rename(whole)
    may_exit.wait()
    os._exit(0)


def _watch_parent(may_exit: threading.Event) -> None:
    """Read standard input: a line says that all ranks are done, its end that the parent is gone."""
    if not os.read(0, 1):
        os._exit(1)
    may_exit.set()


def _run(job: RankJob, folder: Path, rank: int, call_log: CallLog) -> RankOutcome:
    torch.set_num_threads(1)
    try:
        store = dist.FileStore(str(folder / "store"), job.num_ranks)  # type: ignore[attr-defined]
        dist.init_process_group(
            "gloo",
            store=store,
            rank=rank,
            world_size=job.num_ranks,
            timeout=datetime.timedelta(seconds=job.limit_seconds),
        )
        function, args = cloudpickle.loads(job.call)
        seed_generators(job.seed + rank)
        comm = TorchComm(call_log, Group(tuple(range(job.num_ranks))))
        result = function(comm, *args)
        call_log.require_all_waited()
    except BaseException as error:
        return _failed(error, rank, call_log)
    return _returned(result, rank)


def _returned(result: Any, rank: int) -> RankOutcome:
    try:
        return RankOutcome(result=cloudpickle.dumps(result))
    except Exception as error:
        return RankOutcome(
            message=f"rank {rank} returned a {type(result).__name__} that cannot be sent back "
            f"({error}): return numbers, tensors, or lists and dicts of them",
            time=time.time(),
        )


def _failed(error: BaseException, rank: int, call_log: CallLog) -> RankOutcome:
    message = str(error)
    if not isinstance(error, CommError):  # which names rank and call itself
        position = position_in_words(call_log.last_call)
        message = f"rank {rank} raised {type(error).__name__} {position}: {error}"
    return RankOutcome(
        error=_pickled(error),
        message=message,
        trace=_trace(error),
        is_own=not isinstance(error, BrokenCallError),
        time=time.time(),
    )


def _pickled(error: BaseException) -> bytes | None:
    try:
        return bytes(cloudpickle.dumps(error))
    except Exception:
        return None


def _trace(error: BaseException) -> str:
    """The traceback of an error, without the lines of this module."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
