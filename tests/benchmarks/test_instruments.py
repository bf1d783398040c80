"""What do the instruments take for the largest models? Memory is asserted, time is not."""

import subprocess
import sys

from tests.notebooks.filling import ROOT

GIB = 2**30
LLAMA_8B_AT_8192 = """
import resource
import torch
from course_utils.configs import preset
from course_utils.instruments import count_flops
from course_utils.reference import Transformer

def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak_bytes()
model = Transformer(preset("Llama-3-8B"), device="meta")
counted = count_flops(lambda: model(torch.zeros(1, 8192, dtype=torch.long, device="meta")))
print(sum(counted), peak_bytes() - before)
"""


def test_flops_of_llama_8b_at_8192_forward_and_backward(timed):
    with timed("count_flops, Llama-3-8B at 8,192, forward and backward, with imports"):
        printed = subprocess.run(
            [sys.executable, "-c", LLAMA_8B_AT_8192], cwd=ROOT, capture_output=True, check=True
        ).stdout
    total_flops, grown_bytes = map(int, printed.split())
    assert total_flops == 3 * 158_140_695_838_720
    assert grown_bytes < GIB
