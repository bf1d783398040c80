"""Trying a trainer on ranks: results as by `try_it`; of an error, its message and own lines."""

import pytest
import torch
from torch import nn

from course_utils.distributed import VirtualCluster
from course_utils.show.try_on_ranks import try_on_ranks
from tests.answer_bank import make

BACKWARD = "def trainer(comm, model, loss):\n    loss.backward()\n"
LOOP = "    for each in model.parameters():\n"


def sums(trainer):
    """The bias's gradient on each of two ranks."""

    def step(comm, model):
        trainer(comm, model, model(torch.ones(2, 4)).sum())
        return model.bias.grad.tolist()

    return VirtualCluster(2).run(step, nn.Linear(4, 2)).results


def printed(capsys, source):
    try_on_ranks(sums, make(source, "trainer"))
    return capsys.readouterr().out.splitlines()


def test_a_result_is_shown_as_ever(capsys):
    source = f"{BACKWARD}{LOOP}        comm.all_reduce(each.grad)\n"
    assert printed(capsys, source) == ["sums(trainer) = [[4.0, 4.0], [4.0, 4.0]]"]


def test_what_is_not_written_is_no_error(capsys):
    source = "def trainer(comm, model, loss):\n    raise NotImplementedError\n"
    assert printed(capsys, source) == ["sums(trainer): not written yet."]


@pytest.mark.parametrize(
    ("body", "message", "own"),
    [
        (
            "        comm.all_reduce(each.grad[comm.rank :])\n",
            "mismatch in collective #0: rank 0 calls all_reduce of (2, 4) float32, and rank 1 "
            "all_reduce of (1, 4) float32",
            "    trainer, line 4: comm.all_reduce(each.grad[comm.rank :])",
        ),
        (
            "        comm.all_reduce(None)\n",
            "rank 0 raised TypeError before its first call: all_reduce wants tensors, got None",
            "    trainer, line 4: comm.all_reduce(None)",
        ),
        (
            "        if comm.rank:\n            comm.all_reduce(each.grad)\n",
            "deadlock: rank 0 has returned; rank 1 waits in all_reduce #0 of (2, 4) float32",
            "    trainer, line 5: comm.all_reduce(each.grad)",
        ),
    ],
)
def test_an_error_is_its_message_and_the_trainers_own_line(capsys, body, message, own):
    assert printed(capsys, f"{BACKWARD}{LOOP}{body}") == [message, own]


def test_the_lines_of_a_hook_are_shown_too(capsys):
    source = """def trainer(comm, model, loss):
    def send(each):
        comm.all_reduce(each.grad, each)

    for each in model.parameters():
        each.register_post_accumulate_grad_hook(send)
    loss.backward()
"""
    first, *own = printed(capsys, source)
    assert first.startswith("rank 0 raised ")
    assert own[0] == "    trainer, line 7: loss.backward()"
    assert own[-1] == "    send, line 3: comm.all_reduce(each.grad, each)"


def test_an_error_that_no_rank_raised_is_an_error():
    def failing(trainer):
        raise ValueError("of the harness")

    with pytest.raises(ValueError, match="of the harness"):
        try_on_ranks(failing, print)
