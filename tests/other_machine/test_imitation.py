"""An imitated machine has other last digits where there are some, and nowhere else."""

import subprocess
import sys
from pathlib import Path

import pytest

ON_ANOTHER = """
import math, sys, torch
from tests.other_machine.__main__ import become
from tests.other_machine.machines import MACHINES
if sys.argv[1]:
    become(MACHINES[sys.argv[1]])
torch.manual_seed(0)
x, whole = torch.rand(40, 40, dtype=torch.float64), torch.randint(-9, 9, (40, 40)).double()
results = (x @ x, x.exp(), x.softmax(0), x.sum(0), x.norm(dim=0))
print(*[int(each.contiguous().view(torch.int64).sum()) for each in results])
print(*[float(each.mean()) for each in results])
print(*[float(each) for each in ((whole @ whole).trace(), whole.sum(), torch.zeros(1).exp())],
      torch.equal(x[:1].logsumexp(0), x[0]))
print(math.exp(0.3), sum([0.1] * 10), float(torch.randn(3)[0]))
print(*[torch.equal(x @ x, x @ x), math.exp(0.0), sum([1, 2.5])])
"""


def printed(machine=""):
    command = [sys.executable, "-c", ON_ANOTHER, machine]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("machine", ["other-kernels-0", "other-kernels-1"])
def test_rounded_numbers_differ_in_last_digits_and_exact_ones_do_not(machine):
    here, there = printed(), printed(machine)
    assert all(one != other for one, other in zip(here[0], there[0], strict=True))
    for one, other in zip(here[1], there[1], strict=True):
        assert float(one) == pytest.approx(float(other), rel=1e-13)
    assert here[2] == there[2]
    assert here[4] == there[4] == ["True", "1.0", "3.5"]


def test_functions_and_sums_of_python_differ():
    here, there = printed()[3], printed("other-kernels-0")[3]
    assert here[1] != there[1]
    assert here[2] != there[2]
