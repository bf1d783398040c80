"""The process in which one submission's cells run and its answers are observed.

It answers three kinds of request: `run` a cell and give its outputs, `look` at an answer before it
is tried, `observe` it in one case. It has the probes and the instruments; what is right it cannot
know: cases come one by one, judges are elsewhere.
"""

import random
import socket
from typing import Any

import numpy
import torch

from course_utils.checks import guard
from course_utils.checks.check import call, look
from course_utils.checks.run import find
from course_utils.checks.threads import one_thread
from course_utils.checks.wire import Plain
from course_utils.grading.sandbox import answers, frames, tamper, warmth
from course_utils.grading.sandbox.shell import Shell, shell

CELL_SECONDS = 60.0

_ready: dict[str, Any] = {}


def warm_up() -> None:
    """Load all that a submission may need, and forget every answer."""
    warmth.load()
    answers.forget()
    shell()
    _ready["seal"] = tamper.Seal()


def serve(descriptor: int) -> None:
    """Answer requests until the referee hangs up."""
    torch.set_num_threads(1)
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(0)
    connection = socket.socket(fileno=descriptor)
    inmate = Inmate(shell(), _ready["seal"])
    while True:
        try:
            request = frames.receive(connection)
        except (EOFError, OSError):
            return
        frames.send(connection, inmate.reply(request))


class Inmate:
    """What can be asked of one submission."""

    def __init__(self, shell: Shell, seal: tamper.Seal) -> None:
        """Begin with an empty shell."""
        self._shell, self._seal = shell, seal

    def reply(self, request: dict[str, Any]) -> Plain:
        """Carry out one request, whatever happens in it."""
        try:
            match request["do"]:
                case "run":
                    return self._run(request["source"])
                case "look":
                    return self._look(request["exercise"], request["name"])
                case _:
                    return self._observe(request["exercise"], request["name"], request["case"])
        except BaseException as error:
            return guard.raised(error)

    def _run(self, source: str) -> Plain:
        with guard.stopped_after(CELL_SECONDS):
            return {"outputs": self._shell.run(source)}

    def _look(self, exercise: str, name: str) -> Plain:
        if name not in self._shell.user_ns:
            return {"trouble": "no name", "name": name}
        return look(find(exercise), self._shell.user_ns[name]) or {"value": True}

    def _observe(self, exercise: str, name: str, case: Plain) -> Plain:
        check, answer = find(exercise), self._shell.user_ns.get(name)
        if check.probe is call:  # what it returns is all there is to see
            return guard.observe(check.probe, answer, case)
        with one_thread(), answers.hidden(check):
            observed = guard.observe(check.probe, answer, case)
        return observed | {"broken": self._seal.broken()}
