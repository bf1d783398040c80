"""The process in which one submission's cells run and its answers are observed.

It answers three kinds of request: `run` a cell and give its outputs, `object` to an answer before
it is called, `observe` it in one case. It has the instruments, but no right answers: cases come one
by one, results go out as they are, and the judges are in the referee. So who changes what stands
here, or replies in its place, still has to find what is right; what it reports of the work that
this takes, the resources, can be forged.
"""

import random
import socket
from contextlib import nullcontext
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
from autograder.grading.sandbox import framing, kept_code, preload, seccomp
from autograder.grading.sandbox.check_without_judge import check_without_judge
from autograder.grading.sandbox.ipython_shell import Shell, shell

REQUEST_SECONDS = 3600.0  # how long it waits for the next one

_ready: dict[str, Any] = {}


def warm_up() -> None:
    """Import all that a submission may need, and find what may go before it runs."""
    preload.load()
    graded = [item.id for unit in catalogue.units() for item in unit.exercises if not item.manual]
    _ready["checks"] = {name: check_without_judge(name) for name in graded}
    shell()
    _ready["course"] = kept_code.Course()
    kept_code.silence_checks()
    kept_code.unload_checks()


def told(descriptor: int) -> tuple[socket.socket, dict[str, Any]]:
    """The socket to the referee, and what it says first: what the process keeps of the course."""
    connection = socket.socket(fileno=descriptor)
    fork: dict[str, Any] = framing.receive(connection, REQUEST_SECONDS)
    return connection, fork


def serve(connection: socket.socket, fork: dict[str, Any]) -> None:
    """Answer requests until the referee hangs up.

    Args:
        connection: The socket to the referee.
        fork: What of the course is left here; all of it where no answer is observed.
    """
    torch.set_num_threads(1)
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(0)
    course, checks = _ready.pop("course"), _ready.pop("checks")
    if fork:
        course.leave(**fork)
    seccomp.install_filter()
    student_process = StudentProcess(shell(), checks if fork else {})
    del course
    while True:
        try:
            request = framing.receive(connection, REQUEST_SECONDS)
        except (EOFError, OSError):
            return
        framing.send(connection, student_process.reply(request), REQUEST_SECONDS)


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
        with one_thread():
            return bounded_call.observe_within_limits(check.observe, answer, case, seconds)
