"""What are the processes of all ranks up to? Found out by what they leave in files."""

import contextlib
import pickle
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from course_utils.distributed.call_log import Situation, read_call_log, situation
from course_utils.distributed.call_matching import (
    CommError,
    DeadlockError,
    RankError,
    TimeLimitError,
    states_in_words,
)
from course_utils.distributed.job import RankOutcome

GLANCE_SECONDS = 0.02
QUIET_SECONDS = 0.3  # without a line in any journal, before they are read for who waits
PATIENCE_SECONDS = 3.0  # for the cause of a broken call


class Monitor:
    """Looks at the processes of all ranks until they are done or one is in trouble."""

    def __init__(
        self, folder: Path, processes: Sequence["subprocess.Popen[bytes]"], limit_seconds: float
    ) -> None:
        """Begin to count the time.

        Args:
            folder: Where the ranks leave their journals and what comes out.
            processes: Of each rank.
            limit_seconds: For all of them.
        """
        self.folder, self.processes, self.limit_seconds = folder, processes, limit_seconds
        self.found: dict[int, RankOutcome] = {}
        self.deadline = time.monotonic() + limit_seconds
        self.quiet_since, self.num_bytes = time.monotonic(), -1
        self.lost_since: float | None = None

    def outcomes(self) -> list[RankOutcome]:
        """What came out of all ranks, if all have a result.

        Raises:
            CommError: What stopped them, as `run_ranks` says.
        """
        while True:
            ended = [rank for rank, each in enumerate(self.processes) if each.poll() is not None]
            self._collect()
            self._raise_errors(ended)
            if len(self.found) == len(self.processes) and self.lost_since is None:
                self._situation()  # different calls may have gone through by chance
                return [self.found[rank] for rank in sorted(self.found)]
            self._look_for_deadlock()
            if time.monotonic() > self.deadline:
                states = states_in_words(self._situation().states)
                raise TimeLimitError(f"{self.limit_seconds:g} s are used up: {states}")
            time.sleep(GLANCE_SECONDS)

    def _collect(self) -> None:
        for rank in range(len(self.processes)):
            path = self.folder / f"outcome-{rank}"
            if rank not in self.found and path.exists():
                self.found[rank] = pickle.loads(path.read_bytes())

    def _raise_errors(self, ended: Sequence[int]) -> None:
        """The first own error, or who was killed; a lost connection only if there is no cause."""
        failed = {rank: each for rank, each in self.found.items() if each.result is None}
        killed = [rank for rank in ended if rank not in self.found]
        if not failed and not killed:
            return
        self._situation()
        own = [rank for rank, each in failed.items() if each.is_own]
        if own:
            raise _error_of(min(own, key=lambda rank: failed[rank].at), failed)
        if killed:
            raise self._killed(killed[0])
        self.lost_since = self.lost_since or time.monotonic()
        if time.monotonic() > self.lost_since + PATIENCE_SECONDS:
            raise _error_of(min(failed, key=lambda rank: failed[rank].at), failed)

    def _killed(self, rank: int) -> RankError:
        status = self.processes[rank].returncode
        how = f"ended with status {status}"
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        state = self._situation().states[rank]
        error = RankError(rank, f"rank {rank} {how} while it {state}")
        text = (self.folder / f"errors-{rank}").read_text(encoding="utf-8", errors="replace")
        if text.strip():
            error.add_note("\n".join(text.splitlines()[-8:]))
        return error

    def _situation(self) -> Situation:
        journals = [self.folder / f"journal-{rank}" for rank in range(len(self.processes))]
        returned = [rank for rank, each in self.found.items() if each.result is not None]
        return situation([read_call_log(each) for each in journals], returned)

    def _look_for_deadlock(self) -> None:
        """Read the journals when nobody has written for a while."""
        paths = [self.folder / f"journal-{rank}" for rank in range(len(self.processes))]
        num_bytes = sum(path.stat().st_size for path in paths if path.exists())
        now = time.monotonic()
        if num_bytes != self.num_bytes:
            self.num_bytes, self.quiet_since = num_bytes, now
        elif now > self.quiet_since + QUIET_SECONDS:
            self.quiet_since = now
            found = self._situation()
            if found.is_stuck:
                raise DeadlockError(f"deadlock: {states_in_words(found.states)}")


def _error_of(rank: int, failed: Mapping[int, RankOutcome]) -> Exception:
    """What a rank raised: an error of ours itself, any other as the cause, with its lines."""
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
