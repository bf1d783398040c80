"""How much memory does it take to count the bytes of a model that fits on no laptop?"""

import subprocess
import sys

import pytest

COUNT = """
import resource
import torch
from course_utils.configs import preset
from course_utils.instruments import count_saved_bytes, fake_tensors
from course_utils.reference import Transformer

with fake_tensors():
    model = Transformer(preset("Llama-3-8B"), dtype=torch.bfloat16)
    blocks = torch.nn.Sequential(*model.blocks)
    x = torch.ones(1, 8192, 4096, dtype=torch.bfloat16)
    print(count_saved_bytes(lambda: blocks(x), blocks).total_bytes)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ru_maxrss has another unit")
def test_llama_3_8b_is_counted_in_two_gib(timed):
    """The layers alone would keep 41 GiB and the weights 15; python with torch takes the rest."""
    with timed("saved bytes of Llama-3-8B at 8,192 tokens, counted in a new process"):
        done = subprocess.run(
            [sys.executable, "-c", COUNT], capture_output=True, text=True, check=True
        )
    saved_bytes, peak_bytes = map(int, done.stdout.split())
    assert saved_bytes == 44_059_066_368
    assert peak_bytes < 2 * 2**30
    assert done.stderr == ""


TRACE = """
import resource
from course_utils.configs import RunConfig, precision, preset
from course_utils.instruments import fake_tensors, trace_memory
from course_utils.reference import Training

with fake_tensors():
    run = RunConfig(seq_len=4096, precision=precision("fp32"), is_loss_fp32=True)
    training = Training(preset("Llama-3.2-1B"), run)
    trace = trace_memory(training.step, *training.owners, num_steps=4)
    print(trace.peak_bytes)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ru_maxrss has another unit")
def test_four_steps_of_llama_3_2_1b_are_traced_in_two_gib(timed):
    """A real run would take 31 GiB: 16 N of state, and activations that the loss tops."""
    with timed("four training steps of Llama-3.2-1B at 4,096 tokens, traced in a new process"):
        done = subprocess.run(
            [sys.executable, "-c", TRACE], capture_output=True, text=True, check=True
        )
    traced_bytes, peak_bytes = map(int, done.stdout.split())
    assert round(traced_bytes / 2**30, 2) == 31.0
    assert peak_bytes < 2 * 2**30
    assert done.stderr == ""
