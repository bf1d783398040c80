"""Real processes: results as on the virtual cluster, every failure named, nothing left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import pytest
import torch
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from torch import nn

from course_utils.distributed import (
    Comm,
    RankError,
    TimeLimitError,
    VirtualCluster,
    run_ranks,
)
from tests.course_utils.distributed import failing_steps
from tests.course_utils.distributed.failing_steps import FAILURES, skips
from tests.notebooks.filling import ROOT

OPEN_FILE = sys.stderr


@pytest.fixture(autouse=True)
def as_in_a_notebook() -> Iterator[None]:
    """Pickle functions of this file by value, like those of a notebook: no process imports them."""
    for module in (sys.modules[__name__], failing_steps):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (sys.modules[__name__], failing_steps):
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for files; afterwards no temporary folder and no process noted here is left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield tmp_path
    assert list(temporary.glob("ranks-*")) == []  # torch leaves others
    deadline = time.monotonic() + 5
    while alive := [pid for pid in noted(tmp_path) if is_alive(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def note(folder: Path, pid: int) -> None:
    (folder / f"pid-{pid}").touch()


def noted(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Batch:
    def __init__(self, rank: int) -> None:
        self.rows = torch.arange(6.0).view(2, 3) + rank


def everything(comm: Comm, model: nn.Module) -> dict[str, object]:
    """All calls, hooks, groups and random numbers, with a class and a model from outside."""
    handles = []

    def hook(parameter: torch.Tensor) -> None:
        handles.append(comm.all_reduce(parameter.grad, async_op=True))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    batch = Batch(comm.rank)
    model(batch.rows).square().sum().backward()
    for handle in handles:
        handle.wait()
    mine = torch.tensor([1.0, 10.0, 100.0]) * (comm.rank + 1)
    first, gathered, part = mine.clone(), torch.zeros(comm.size, 3), torch.zeros(3)
    comm.broadcast(first, comm.size - 1)
    comm.all_gather(gathered, mine)
    comm.reduce_scatter(part, gathered * (comm.rank + 1))
    coming = comm.receive(mine, (comm.rank - 1) % comm.size, async_op=True)
    comm.send(first + comm.rank, (comm.rank + 1) % comm.size)
    coming.wait()
    group, in_group = comm.split(comm.rank % 2), torch.tensor([float(comm.rank)])
    comm.split(0).barrier()
    group.all_reduce(in_group)
    print(f"{comm.rank} of {comm.size} in {group.size}")
    print("with", torch.get_num_threads(), "thread", file=sys.stdout)
    return {
        "gradients": [parameter.grad for parameter in model.parameters()],
        "tensors": [first, gathered, part, mine, in_group, torch.rand(3)],
        "batch": batch,
        "noise": sys.stderr.write("not shown"),
    }


def test_processes_agree_with_the_virtual_cluster(capfd):
    model = nn.Linear(3, 2)
    real = run_ranks(everything, 3, model)
    printed = capfd.readouterr()
    lines = printed.out.splitlines()
    if (os.cpu_count() or 1) < 3:
        assert lines.pop(0).startswith("3 ranks share ")
    assert lines == [
        line
        for rank in range(3)
        for line in (f"rank {rank}: {rank} of 3 in {2 - rank % 2}", f"rank {rank}: with 1 thread")
    ]
    assert printed.err == ""
    virtual = VirtualCluster(3).run(everything, model).results
    for one, other in zip(real, virtual, strict=True):
        torch.testing.assert_close(one["gradients"], other["gradients"])
        torch.testing.assert_close(one["tensors"], other["tensors"])
        assert type(one["batch"]) is Batch
    assert not torch.equal(real[0]["tensors"][4], real[1]["tensors"][4])


def noting(function: Callable[[Comm], object]) -> Callable[[Comm, Path], object]:
    """A step that leaves a note of its process."""

    def step(comm: Comm, folder: Path) -> object:
        note(folder, os.getpid())
        return function(comm)

    step.__name__ = function.__name__
    return step


def raises(comm: Comm, folder: Path) -> None:
    """Rank 1 fails first, and breaks the call of rank 0."""
    note(folder, os.getpid())
    comm.barrier()
    if comm.rank == 1:
        note(folder, subprocess.Popen(["sleep", "60"]).pid)
        _ = [][comm.rank]
    comm.all_reduce(torch.ones(3))


def leaves(comm: Comm, folder: Path) -> None:
    comm.barrier()
    if comm.rank == 1:
        os._exit(3)
    comm.all_reduce(torch.ones(3))


def kills_itself(comm: Comm, folder: Path) -> None:
    note(folder, os.getpid())
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.all_reduce(torch.ones(3))


def is_killed_in_a_call(comm: Comm, folder: Path) -> None:
    """Rank 0 kills rank 1 while it waits; a call is logged before it is made."""
    pid = torch.tensor([os.getpid() * comm.rank])
    comm.all_reduce(pid)
    if comm.rank == 1:
        comm.all_reduce(torch.ones(3))
    time.sleep(1)
    os.kill(int(pid), signal.SIGKILL)
    comm.all_reduce(torch.ones(3))


def closes_over_a_lock(comm: Comm, folder: Path) -> Callable[[], object]:
    lock = threading.Lock()
    comm.barrier()
    return lambda: lock


def sends_a_number(comm: Comm, folder: Path) -> None:
    comm.barrier()
    comm.all_reduce(comm.rank)  # type: ignore[arg-type]


def returns_a_generator(comm: Comm, folder: Path) -> Iterator[int]:
    return (each for each in range(3))


NAMED: list[tuple[Callable[[Comm, Path], object], type[Exception], str]] = [
    *((noting(function), error, words) for function, error, words in FAILURES),
    (raises, RankError, "rank 1 raised IndexError after barrier #0: list index out of range"),
    (leaves, RankError, "rank 1 ended with status 3 while it runs after barrier #0"),
    (kills_itself, RankError, "rank 1 was killed by SIGKILL while it runs after barrier #0"),
    (
        is_killed_in_a_call,
        RankError,
        "rank 1 was killed by SIGKILL while it waits in all_reduce #1 of (3,) float32",
    ),
    (closes_over_a_lock, RankError, "returned a function that cannot be sent back (cannot pickle"),
    (sends_a_number, RankError, "raised TypeError after barrier #0: all_reduce wants tensors, got"),
    (returns_a_generator, RankError, "returned a generator that cannot be sent back (cannot"),
]


@pytest.mark.parametrize(
    ("function", "error", "words"), NAMED, ids=[each[0].__name__ for each in NAMED]
)
def test_every_failure_is_named(function, error, words, folder, capfd):
    with pytest.raises(error) as caught:
        run_ranks(function, 2, folder)
    assert words in str(caught.value)
    assert capfd.readouterr().err == ""
    if function is raises:
        assert isinstance(caught.value.__cause__, IndexError)
        (lines,) = caught.value.__notes__
        assert "_ = [][comm.rank]" in lines
        assert "rank_process" not in lines


def never_returns(comm: Comm, folder: Path) -> None:
    note(folder, os.getpid())
    print("here")
    comm.barrier()
    while comm.rank == 1:
        pass
    comm.barrier()


def test_more_ranks_than_cores_are_reported(monkeypatch, capsys):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert run_ranks(lambda comm: comm.rank, 2) == [0, 1]
    assert capsys.readouterr().out == (
        "2 ranks share one core: what they compute holds, how long they take does not\n"
    )


def test_a_time_limit_names_who_runs_and_who_waits(folder, capsys):
    with pytest.raises(TimeLimitError) as caught:
        run_ranks(never_returns, 2, folder, limit_seconds=20)
    assert str(caught.value) == (
        "20 s are used up: rank 0 waits in barrier #1; rank 1 runs after barrier #0"
    )
    with pytest.raises(TimeLimitError, match=r"^0\.2 s are used up: ranks 0, 1 start up$"):
        run_ranks(never_returns, 2, folder, limit_seconds=0.2)


def test_an_interrupt_leaves_no_process(folder):
    def interrupt() -> None:
        while len(noted(folder)) < 2:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        run_ranks(never_returns, 2, folder)
    interrupter.join()
    assert len(noted(folder)) == 2


KILLED = """
import sys
from pathlib import Path
from course_utils.distributed import run_ranks
from tests.course_utils.distributed.test_ranks import never_returns
run_ranks(never_returns, 2, Path(sys.argv[1]))
"""


def test_processes_end_when_the_notebook_is_killed(folder):
    environ = {**os.environ, "TMPDIR": str(folder)}  # a killed process leaves files there
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], cwd=ROOT, env=environ)
    while len(noted(folder)) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()


def test_objects_that_cannot_be_sent_are_named(monkeypatch):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"cannot send `lock`, a lock, to other .*make it inside"):
        run_ranks(lambda comm: lock, 2)
    with pytest.raises(TypeError, match="cannot send `OPEN_FILE`, a "):
        run_ranks(lambda comm: OPEN_FILE, 2)
    with pytest.raises(TypeError, match="cannot send argument 2, a generator, to"):
        run_ranks(lambda comm, a, b: None, 2, 1, (each for each in "ab"))
    with pytest.raises(TypeError, match="wants a function of comm, got int"):
        run_ranks(3, 2)
    with pytest.raises(ValueError, match="num_ranks must be above zero, got 0"):
        run_ranks(skips, 0)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ValueError, match="needs the package cloudpickle"):
        run_ranks(skips, 2)


CELLS = [
    """
import torch
from dataclasses import dataclass
from course_utils.distributed import run_ranks

@dataclass
class Pair:
    rank: int
    total: float

def doubled(x):
    return 2 * x

def step(comm, x):
    x = doubled(x) + comm.rank
    comm.all_reduce(x)
    return Pair(comm.rank, x.item())
""",
    "run_ranks(step, 2, torch.ones(1))",
    "[type(each) is Pair for each in run_ranks(step, 1, torch.ones(1))]",
]


def test_functions_and_classes_of_a_notebook(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    cells = NotebookClient(notebook, kernel_name="python3").execute().cells
    assert [each.data["text/plain"] for cell in cells for each in cell.outputs] == [
        "[Pair(rank=0, total=5.0), Pair(rank=1, total=5.0)]",
        "[True]",
    ]
