"""The command: on two processes under torchrun, and where it cannot start."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch

from course_utils.torchrun.__main__ import functions_of, join, main
from tests.notebooks.filling import ROOT

# Bytes that each of two ranks sends, of 64 rows of 64 numbers of 8 bytes, by pencil.
WEIGHT = ROWS = 64 * 64 * 8
SENT = {
    "09": [4 * WEIGHT],  # all-reduce: 2 (n-1)/n of four weights
    "10": [4 * WEIGHT, 4 * 3 * WEIGHT // 2],  # scatter and gather; two gathers, a scatter a layer
    "11": [2 * ROWS, ROWS],  # an all-reduce there, and one back; half of keys and values
    "12": [ROWS],  # outputs of the first stage; gradients of them from the second
}
CELLS = [
    "from math import sqrt",
    "%matplotlib inline\nraise RuntimeError('never run')",
    "raise RuntimeError('a cell that measures')",
    "SCALE, computed = 3, print('never run')",
    "SCALE = 3\nshown: int = SCALE\nother = computed",
    "class Layer:\n    def backward(self):\n        return SCALE * sqrt(4)",
    "def answer(x):\n    return Layer().backward() + x",
    "def unwritten(x):\n    raise NotImplementedError('not written yet')",
]


def under_torchrun(*arguments: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, "--nproc-per-node", "2", "-m", "course_utils.torchrun"]
    settings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        settings["GLOO_SOCKET_IFNAME"] = "lo"
    return subprocess.run(
        [*command, *arguments, "--backend", "gloo"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env=os.environ | settings,
    )


@pytest.fixture
def notebook(tmp_path):
    """Write the code cells of a notebook; its path."""

    def written(*sources):
        cells = [{"cell_type": "code", "source": [source]} for source in sources]
        path = tmp_path / "own.ipynb"
        path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "x ="}, *cells]}))
        return path

    return written


@pytest.mark.parametrize("unit", SENT)
def test_two_processes_have_what_one_has(unit):
    ended = under_torchrun(unit)
    assert ended.returncode == 0, ended.stderr
    assert "\nAs on one rank; " in ended.stdout
    rows = re.findall(r"^ +([01]) +([\d,]+) +\d+\.\d{4} ", ended.stdout, flags=re.MULTILINE)
    sent = [(int(rank), int(num_bytes.replace(",", ""))) for rank, num_bytes in rows]
    assert sent == [(rank, num_bytes) for num_bytes in SENT[unit] for rank in (0, 1)]


def test_a_wrong_function_of_ones_own_differs(notebook):
    own = notebook("def backward_in_buckets(comm, model, loss, _):\n loss.backward()")
    ended = under_torchrun("09", "--own", str(own))
    assert ended.returncode == 1, ended.stderr
    assert "backward_in_buckets (yours)" in ended.stdout
    assert "\nNOT as on one rank; " in ended.stdout


def test_a_function_that_raises_ends_all_ranks(notebook):
    own = notebook("def sharded_step(comm, *_):\n comm.barrier()\n raise KeyError('my part')")
    ended = under_torchrun("10", "--own", str(own))
    assert ended.returncode == 1
    assert "KeyError: 'my part'" in ended.stderr


def test_of_a_notebook_definitions_run_and_nothing_else(notebook, capsys):
    own = functions_of(notebook(*CELLS))
    assert list(own) == ["Layer", "answer"]
    assert own["answer"](1) == 7
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("sources", [["import no_such_module"], None])
def test_a_notebook_that_cannot_be_used_is_named(notebook, tmp_path, sources, capsys):
    path = notebook(*sources) if sources else tmp_path / "missing.ipynb"
    assert main(["09", "--own", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("--own wants a notebook of yours")
    assert ("ModuleNotFoundError" if sources else "FileNotFoundError") in said


def test_without_torchrun_it_says_how_to_start(capsys, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert main(["09"]) == 2
    assert "Start it with `torchrun --standalone --nproc-per-node 2" in capsys.readouterr().err


def test_each_rank_needs_a_gpu_of_its_own(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(
        ValueError, match=r"4 ranks were started on a machine with 2\. Give `--npro"
    ):
        join(None, 60.0)
