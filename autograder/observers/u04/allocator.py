"""An allocator under a script of requests: each one's address, and what was reserved by then.

A script is a list of whole numbers: a positive one requests that many bytes, and -n frees the block
of the n-th request.
"""

import functools
from collections.abc import Callable
from itertools import takewhile
from operator import eq
from typing import Any

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.tools import errors_as_data
from course_utils.configs import ModelConfig, RunConfig, precision
from course_utils.instruments import fake_tensors, trace_memory
from course_utils.reference import Training
from course_utils.reference.allocator_replay import Device, serve

Script = list[int]
TRACED = "a training step of a small Llama whose vocabulary is "


def requests_of(script: Script | str) -> Script:
    """The script itself, or that of the traced training for its name."""
    if isinstance(script, str):
        return list(_traced_script(int(script.removeprefix(TRACED))))
    return list(script)


@functools.cache
def _traced_script(vocab_size: int) -> tuple[int, ...]:
    """Requests of a training step, from a few bytes to 16 MiB."""
    model = ModelConfig(
        num_layers=1, hidden_size=512, num_heads=8, ffn_size=1408, vocab_size=vocab_size
    )
    with fake_tensors():
        training = Training(model, RunConfig(seq_len=256, precision=precision("fp32")))
        trace = trace_memory(training.step, *training.owners)
    return tuple(trace.script())


@errors_as_data
def observe(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """What each request of a script gave, up to the first that gave no address."""
    device = Device(case["segments"])
    allocator = answer(device.reserve)
    served = takewhile(
        lambda each: type(each.address) is int,
        serve(allocator, device, requests_of(case["script"])),
    )
    return {"served": [list(each) for each in served]}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Requests that are served right, up to the first that is not."""
    pairs = map(eq, observed["served"], right["served"])
    return [
        Fact(
            "served_requests",
            sum(takewhile(bool, pairs)),
            "the requests that are served as the rules say",
            "Draw the segments up to the first request that is not served as the rules say. Which "
            "of the six rules decides there, and what does your allocator do instead?",
        )
    ]
