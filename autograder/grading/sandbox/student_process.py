"""The process in which one submission's cells run and its answers are observed.

It answers four kinds of request: `remove` what answers the unit's exercises, `run` a cell and give
its outputs, `object` to an answer before it is called, `observe` it in one case. It has the
instruments, but no right answers: cases come one by one, and the judges are in the referee.

The main thread runs the student's code, because only there a time limit can end a call. Another
thread exchanges messages with the referee. Nothing leads there from the student's code: no frame,
no name, no copy of the process.
"""

import _thread
import random
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy
import torch

from autograder import catalogue
from autograder.checking import bounded_call
from autograder.checking.call_memory import CallMemory
from autograder.checking.exercise_check import Check
from autograder.checking.plain_data import Plain
from autograder.checking.scoring import find_objection
from autograder.checking.single_thread import one_thread
from autograder.checking.time_limit import call_within
from autograder.grading.sandbox import (
    answer_removal,
    audit_hook,
    channel,
    framing,
    integrity,
    preload,
)
from autograder.grading.sandbox.check_without_judge import check_without_judge
from autograder.grading.sandbox.ipython_shell import Shell, shell

_ready: dict[str, Any] = {}


def warm_up() -> None:
    """Import all that a submission may need, and remove every answer."""
    preload.load()
    graded = [item.id for unit in catalogue.units() for item in unit.exercises if not item.manual]
    checks = {name: check_without_judge(name) for name in graded}
    _ready["files"] = answer_removal.files_of(checks.values())
    answer_removal.remove_answers(checks.values())
    shell()
    _ready["checks"] = {name: answer_removal.for_observing(each) for name, each in checks.items()}
    _ready["modules"] = dict(sys.modules)
    answer_removal.unload_checks()


def files_of_answers() -> set[Path]:
    """Files that a student's code must not read, as far as they are there."""
    files: set[Path] = _ready["files"]
    return {path for path in files if path.exists()}


def serve(descriptor: int) -> None:
    """Answer requests until the referee hangs up.

    Args:
        descriptor: The socket to the referee, already moved out of reach.
    """
    torch.set_num_threads(1)
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(0)
    requests: SimpleQueue[list[bytes]] = SimpleQueue()
    replies: SimpleQueue[channel.Frames] = SimpleQueue()
    student_process = StudentProcess(shell(), _ready.pop("checks"))
    receive, send = channel.open_locked(descriptor)
    _thread.start_new_thread(  # no local name here: frames below a student's code may be lent
        _relay,
        (receive, send, requests, replies, partial(integrity.seal, _ready.pop("modules"))),
    )
    audit_hook.install()
    while message := requests.get():
        replies.put(framing.packed(student_process.reply(framing.unpacked(*message))))


def _relay(
    receive: channel.Receive,
    send: channel.Send,
    requests: "SimpleQueue[list[bytes]]",
    replies: "SimpleQueue[channel.Frames]",
    make_seal: Callable[[], tuple[integrity.ReadVersions, integrity.FindChange]],
) -> None:
    """Pass requests on and replies back; seal, or check the integrity, where a note asks for it.

    Only local names are used here, since a student's code may rebind global ones.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    hung_up, seal_note, check_note = EOFError, framing.SEAL, framing.CHECK_INTEGRITY
    seal: tuple[integrity.ReadVersions, integrity.FindChange] | None = None
    while True:
        try:
            note, *message = receive()
        except hung_up:
            requests.put([])
            return
        before = seal[0]() if seal and note == check_note else []
        requests.put(message)
        reply = replies.get()
        if note == seal_note:
            seal = make_seal()
        tampered = ""
        if note == check_note:
            tampered = seal[1](before) if seal else "the seal"
        send((tampered.encode(), *reply))


class StudentProcess:
    """Carries out the requests about one submission."""

    def __init__(self, shell: Shell, checks: dict[str, Check]) -> None:
        self._shell, self._checks = shell, checks
        self._memories: dict[str, CallMemory] = {}

    def reply(self, request: dict[str, Any]) -> Plain:
        """Carry out one request, whatever happens in it."""
        try:
            details = {name: value for name, value in request.items() if name != "do"}
            match request["do"]:
                case "run":
                    return self._run(**details)
                case "remove":
                    return answer_removal.remove_named(**details)
                case "object":
                    return self._object(**details)
                case _:
                    return self._observe(**details)
        except BaseException as error:
            return bounded_call.describe_error(error)

    def _run(self, source: str, seconds: float) -> Plain:
        outputs = call_within(seconds, lambda: self._shell.run(source), takes_late_value=True)
        return {"outputs": outputs}

    def _object(self, exercise: str, name: str, seconds: float) -> Plain:
        if name not in self._shell.user_ns:
            return {"trouble": "no name", "name": name}
        answer = self._shell.user_ns[name]

        def looked_at() -> Plain:
            objection = find_objection(self._checks[exercise], answer)
            self._memories[name] = CallMemory(answer)
            return objection or {"value": True}

        return call_within(seconds, looked_at)

    def _observe(
        self, exercise: str, name: str, case: Plain, seconds: float, alone: bool = False
    ) -> Plain:
        """Observe an answer in one case; alone, if it is to find nothing of the calls before."""
        memory = self._memories.get(name) if alone else None
        with memory.forgotten() if memory else nullcontext():
            return self._observed(exercise, name, case, seconds)

    def _observed(self, exercise: str, name: str, case: Plain, seconds: float) -> Plain:
        check, answer = self._checks[exercise], self._shell.user_ns.get(name)
        if check.is_formula:  # a formula: what it returns is all that is observed
            return bounded_call.observe_within_limits(check.observe, answer, case, seconds)
        with one_thread(), answer_removal.observing():
            return bounded_call.observe_within_limits(check.observe, answer, case, seconds)
