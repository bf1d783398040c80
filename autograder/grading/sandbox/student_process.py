"""The process in which one submission's cells run and its answers are observed.

It answers three kinds of request: `run` a cell and give its outputs, `look` at an answer before it
is tried, `observe` it in one case. It has the instruments; what is right it cannot know: cases come
one by one, judges are elsewhere.

The main thread does the work, because there alone a time limit ends a call. Another thread talks:
no frame, no name and no copy of the process that a student's code makes leads to it.
"""

import _thread
import random
import signal
import sys
from queue import SimpleQueue
from typing import Any

import numpy
import torch

from autograder import catalogue
from autograder.checking import bounded_call
from autograder.checking.check import Check, call, find_objection
from autograder.checking.notebook_calls import find
from autograder.checking.plain_data import Plain
from autograder.checking.single_thread import one_thread
from autograder.grading.sandbox import (
    answer_removal,
    audit_hook,
    channel,
    framing,
    integrity,
    preload,
)
from autograder.grading.sandbox.ipython_shell import Shell, shell

_ready: dict[str, Any] = {}


def warm_up() -> None:
    """Load all that a submission may need, and forget every answer."""
    preload.load()
    answer_removal.forget()
    shell()
    graded = [item.id for unit in catalogue.units() for item in unit.exercises if not item.manual]
    _ready["checks"] = {name: find(name) for name in graded}
    modules = dict(sys.modules)
    answer_removal.put_away()
    _ready["seal"] = integrity.seal(modules)


def serve(talk: int) -> None:
    """Answer requests until the referee hangs up.

    Args:
        talk: The descriptor, lifted out of reach.
    """
    torch.set_num_threads(1)
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(0)
    work: SimpleQueue[list[bytes]] = SimpleQueue()
    done: SimpleQueue[channel.Frames] = SimpleQueue()
    student_process = StudentProcess(shell(), _ready.pop("checks"))
    listen, speak = channel.locked(talk)
    _thread.start_new_thread(_talk, (listen, speak, work, done, _ready.pop("seal")))
    audit_hook.arm()
    while message := work.get():
        done.put(framing.packed(student_process.reply(framing.unpacked(*message))))


def _talk(
    listen: channel.Listen,
    speak: channel.Speak,
    work: "SimpleQueue[list[bytes]]",
    done: "SimpleQueue[channel.Frames]",
    seal: tuple[integrity.Marks, integrity.Broken],
) -> None:
    """Hand requests over, and say whether the seal held meanwhile, where a note asks for it.

    Once a student's code is there nothing is used here but local names.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    gone, (marks, broken) = EOFError, seal
    while True:
        try:
            note, *message = listen()
        except gone:
            work.put([])
            return
        before = marks() if note else []
        work.put(message)
        reply = done.get()
        speak((broken(before).encode() if note else b"", *reply))


class StudentProcess:
    """What can be asked of one submission."""

    def __init__(self, shell: Shell, checks: dict[str, Check]) -> None:
        """Begin with an empty shell."""
        self._shell, self._checks = shell, checks

    def reply(self, request: dict[str, Any]) -> Plain:
        """Carry out one request, whatever happens in it."""
        try:
            match request["do"]:
                case "run":
                    return self._run(**request)
                case "look":
                    return self._look(**request)
                case _:
                    return self._observe(**request)
        except BaseException as error:
            return bounded_call.describe_error(error)

    def _run(self, do: str, source: str, seconds: float) -> Plain:
        with bounded_call.stopped_after(seconds):
            return {"outputs": self._shell.run(source)}

    def _look(self, do: str, exercise: str, name: str, seconds: float) -> Plain:
        if name not in self._shell.user_ns:
            return {"trouble": "no name", "name": name}
        with bounded_call.stopped_after(seconds):
            return find_objection(self._checks[exercise], self._shell.user_ns[name]) or {
                "value": True
            }

    def _observe(self, do: str, exercise: str, name: str, case: Plain, seconds: float) -> Plain:
        check, answer = self._checks[exercise], self._shell.user_ns.get(name)
        if check.observe is call:  # what it returns is all there is to see
            return bounded_call.observe_within_limits(check.observe, answer, case, seconds)
        with one_thread(), answer_removal.hidden(check):
            return bounded_call.observe_within_limits(check.observe, answer, case, seconds)
