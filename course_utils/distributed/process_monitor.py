"""Wait for the processes of all ranks; find errors and deadlocks in the files that they leave."""

import contextlib
import pickle
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from course_utils.distributed.call_log import JobStatus, job_status, read_call_log
from course_utils.distributed.call_matching import (
    CommError,
    DeadlockError,
    RankError,
    TimeLimitError,
    states_in_words,
)
from course_utils.distributed.rank_job import RankOutcome

POLL_SECONDS = 0.02
QUIET_SECONDS = 0.3  # without a new line in any call log, before looking for a deadlock
CAUSE_SECONDS = 3.0  # after a broken call, for the error of the rank that broke it


class Monitor:
    """Watches the processes of all ranks until they are done or one fails."""

    def __init__(
        self, folder: Path, processes: Sequence["subprocess.Popen[bytes]"], limit_seconds: float
    ) -> None:
        """Start the clock.

        Args:
            folder: Where the ranks leave their call logs and outcomes.
            processes: Of each rank.
            limit_seconds: For all of them together.
        """
        self._folder, self._processes, self._limit_seconds = folder, processes, limit_seconds
        self._call_logs = [folder / f"calls-{rank}" for rank in range(len(processes))]
        self._outcomes: dict[int, RankOutcome] = {}
        self._deadline = time.monotonic() + limit_seconds
        self._quiet_since, self._num_log_bytes = time.monotonic(), -1
        self._broken_since: float | None = None

    def outcomes(self) -> list[RankOutcome]:
        """Wait for the outcomes of all ranks, each with a result.

        Raises:
            CommError: What stopped them, as `run_ranks` says.
        """
        while True:
            ended = [rank for rank, each in enumerate(self._processes) if each.poll() is not None]
            self._collect_outcomes()
            self._raise_errors(ended)
            if len(self._outcomes) == len(self._processes) and self._broken_since is None:
                self._status()  # calls that differ may have gone through by chance
                return [self._outcomes[rank] for rank in sorted(self._outcomes)]
            self._look_for_deadlock()
            if time.monotonic() > self._deadline:
                states = states_in_words(self._status().states)
                raise TimeLimitError(f"{self._limit_seconds:g} s are used up: {states}")
            time.sleep(POLL_SECONDS)

    def _collect_outcomes(self) -> None:
        for rank in range(len(self._processes)):
            path = self._folder / f"outcome-{rank}"
            if rank not in self._outcomes and path.exists():
                self._outcomes[rank] = pickle.loads(path.read_bytes())

    def _raise_errors(self, ended: Sequence[int]) -> None:
        """Raise the first own error, or who was killed; a broken call only if there is no cause."""
        failed = {rank: each for rank, each in self._outcomes.items() if each.result is None}
        killed = [rank for rank in ended if rank not in self._outcomes]
        if not failed and not killed:
            return
        self._status()  # a mismatch is the cause of all else
        own = {rank: each for rank, each in failed.items() if each.is_own}
        if own:
            raise _first_error(own)
        if killed:
            raise self._killed(killed[0])
        self._broken_since = self._broken_since or time.monotonic()
        if time.monotonic() > self._broken_since + CAUSE_SECONDS:
            raise _first_error(failed)

    def _killed(self, rank: int) -> RankError:
        status = self._processes[rank].returncode
        how = f"ended with status {status}"
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        state = self._status().states[rank]
        error = RankError(rank, f"rank {rank} {how} while it {state}")
        text = (self._folder / f"errors-{rank}").read_text(encoding="utf-8", errors="replace")
        if text.strip():
            error.add_note("\n".join(text.splitlines()[-8:]))
        return error

    def _status(self) -> JobStatus:
        """What all ranks are doing; a mismatch between their calls is raised."""
        returned = [rank for rank, each in self._outcomes.items() if each.result is not None]
        return job_status([read_call_log(path) for path in self._call_logs], returned)

    def _look_for_deadlock(self) -> None:
        """Read the call logs when no rank has written for a while."""
        num_bytes = sum(path.stat().st_size for path in self._call_logs if path.exists())
        now = time.monotonic()
        if num_bytes != self._num_log_bytes:
            self._num_log_bytes, self._quiet_since = num_bytes, now
        elif now > self._quiet_since + QUIET_SECONDS:
            self._quiet_since = now
            status = self._status()
            if status.is_deadlocked:
                raise DeadlockError(f"deadlock: {states_in_words(status.states)}")


def _first_error(failed: Mapping[int, RankOutcome]) -> Exception:
    """The earliest error: a `CommError` itself, any other as the cause of a `RankError`."""
    rank = min(failed, key=lambda rank: failed[rank].time)
    outcome, original = failed[rank], None
    if outcome.error is not None:
        with contextlib.suppress(Exception):
            original = pickle.loads(outcome.error)
    if isinstance(original, CommError):
        return original
    error = RankError(rank, outcome.message)
    error.__cause__ = original
    if outcome.trace:
        error.add_note(outcome.trace)
    return error
