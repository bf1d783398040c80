"""The command: on two processes under torchrun, on 64 fake ranks, and where it cannot start."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_utils.torchrun.__main__ import main
from course_utils.torchrun.joining import join
from tests.notebooks.filling import ROOT

# Bytes that the first rank of n sends in 3 steps, of 64 rows of 64 numbers of 8 bytes, by pencil.
WEIGHT, ROWS, STEPS = 64 * 64 * 8, 64 * 64 * 8, 3
ALL_WEIGHTS = 4 * (WEIGHT + 64 * 8)  # of four layers, with biases
SENT = {
    "09": [lambda n: STEPS * 2 * ALL_WEIGHTS * (n - 1) // n],  # all-reduce
    "10": [
        lambda n: STEPS * 2 * ALL_WEIGHTS * (n - 1) // n,  # scatter and gather
        lambda n: STEPS * 4 * 3 * WEIGHT * (n - 1) // n,  # two gathers and a scatter a layer
    ],
    "11": [
        lambda n: STEPS * 2 * 2 * ROWS * (n - 1) // n,  # an all-reduce there, and one back
        lambda n: (n - 1) * 2 * ROWS // n,  # keys and values, to the next rank in each turn
    ],
    "12": [lambda n: STEPS * ROWS],  # the first stage's outputs, micro-batch by micro-batch
}


def under_torchrun(*arguments: str, num_ranks: int = 2) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, "--nproc-per-node", str(num_ranks), "-m", "course_utils.torchrun"]
    settings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        settings["GLOO_SOCKET_IFNAME"] = "lo"
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env=os.environ | settings,
    )


def rows_of(printed: str) -> list[tuple[int, int]]:
    """Rank and bytes sent, from the lines of the tables."""
    found = re.findall(r"^ +(\d+) +\d+ +([\d,]+) +\d+\.\d{4}$", printed, flags=re.MULTILINE)
    return [(int(rank), int(sent.replace(",", ""))) for rank, sent in found]


@pytest.mark.parametrize("unit", SENT)
def test_two_processes_have_what_one_has(unit):
    ended = under_torchrun(unit, "--backend", "gloo")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("As on one rank") == len(SENT[unit])
    assert ended.stdout.count("2 ranks, gloo") == len(SENT[unit])
    wanted = [(rank, sent(2)) for sent in SENT[unit] for rank in (0, 1)]
    assert rows_of(ended.stdout) == wanted  # in unit 12 both stages send as much


@pytest.mark.parametrize("unit", SENT)
def test_one_of_64_fake_ranks_sends_what_the_pencil_says(unit, capsys):
    assert main([unit, "--dry-run", "64"]) == 0
    printed = capsys.readouterr().out
    sent = [int(each.replace(",", "")) for each in re.findall(r"([\d,]+) bytes sent", printed)]
    assert sent == [each(64) for each in SENT[unit]]
    assert printed.count("rank 0 of 64, dry") == len(sent)


def test_stages_inside_a_pipeline_send_both_ways(capsys):
    for rank, times in ((5, 2), (63, 1)):
        assert main(["12", "--dry-run", "64", "--rank", str(rank)]) == 0
        assert f" {times * STEPS * ROWS:,} bytes sent" in capsys.readouterr().out


def notebook_of(folder: Path, source: str) -> str:
    path = folder / "own.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": source}]}))
    return str(path)


def test_a_wrong_function_of_ones_own_is_named(tmp_path):
    own = notebook_of(tmp_path, "def backward_in_buckets(comm, model, loss, _):\n loss.backward()")
    ended = under_torchrun("09", "--backend", "gloo", "--own", own)
    assert ended.returncode == 1
    assert "backward_in_buckets (yours)" in ended.stdout
    assert "NOT as on one rank, on ranks 0, 1: adding in another order may" in ended.stdout
    for rank in (0, 1):
        assert re.search(rf"rank {rank}: `0\.0\.weight` differs by [\d.]+e", ended.stderr)


def test_a_function_that_raises_names_rank_and_call(tmp_path):
    source = "def sharded_step(comm, *_):\n comm.barrier()\n raise KeyError('part')"
    ended = under_torchrun(
        "10", "--backend", "gloo", "--own", notebook_of(tmp_path, source), num_ranks=1
    )
    assert ended.returncode == 1
    assert "rank 0 raised KeyError after barrier #0: 'part'" in ended.stderr


def test_what_cannot_start_says_what_to_do(capsys, monkeypatch):
    refused = {
        ("09",): "MASTER_PORT. Start it with `torchrun --standalone --nproc-per-node 2 -m "
        "course_utils.torchrun 09`",
        ("09", "--dry-run", "3"): "64 came, which 3 does not divide: give `--rows 63`",
        ("09", "--dry-run", "4", "--rank", "4"): "has ranks 0 to 3, and 4 came",
        ("09", "--dry-run", "4", "--width", "0"): "width",
        ("09", "--dry-run", "4", "--own", "nowhere"): "--own wants a notebook of yours",
    }
    for arguments, words in refused.items():
        assert main(arguments) == 2
        printed = capsys.readouterr()
        assert words in printed.err
        assert printed.out == ""
        assert not torch.distributed.is_initialized()


def test_each_rank_needs_a_gpu_of_its_own(monkeypatch):
    for name, value in {"RANK": "6", "LOCAL_RANK": "2", "WORLD_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "29400")
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match=r"Rank 6 is number 2 on .* 2 GPUs there: start 2 proc"):
        join("12", None, 60.0)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(ValueError, match=r'no NCCL here, .*: use the backend "gloo"'):
        join("12", "nccl", 60.0)
