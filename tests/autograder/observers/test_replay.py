"""Logs of ranks that are replayed: honest ones give the same events, forged ones are noticed."""

import copy
import math

import pytest
import torch
from torch import nn

from autograder.checking import plain_data
from autograder.observers.rank_log import record
from autograder.observers.replay import replay
from course_utils.distributed import (
    Comm,
    DeadlockError,
    Link,
    MismatchError,
    Network,
    RankError,
    VirtualCluster,
)
from course_utils.reference.bucketing import backward_in_buckets
from course_utils.reference.ring import ring_all_reduce

UNEVEN = Network(inside=Link(latency_seconds=0.1, bandwidth_bytes_per_second=7.0))
CLUSTER = VirtualCluster(4, network=UNEVEN, flops_per_second=3.0)


def ring(comm: Comm) -> torch.Tensor:
    tensor = torch.arange(6.0) + 10 * comm.rank
    ring_all_reduce(comm, tensor)
    return tensor


def buckets(comm: Comm) -> torch.Tensor:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    for parameter in model.parameters():
        comm.broadcast(parameter.data, 0)
    loss = model(torch.randn(2 + comm.rank, 3)).square().sum()
    backward_in_buckets(comm, model, loss, bucket_bytes=40)
    return torch.cat([each.grad.flatten() for each in model.parameters()])


def every_call(comm: Comm) -> torch.Tensor:
    mine = torch.tensor([1.0, math.nan, 3.0, 4.0]) * comm.rank
    whole, part = torch.empty(16), torch.empty(1)
    gather = comm.all_gather(whole, mine, async_op=True)
    comm.reduce_scatter(part, mine)
    comm.barrier()
    if comm.rank == 0:
        comm.send(mine[:0], 2)
    if comm.rank == 2:
        comm.receive(mine[:0], 0)
    gather.wait()
    gather.wait()
    return whole


def groups(comm: Comm) -> torch.Tensor:
    torch.ones(1, 3) @ torch.ones(3, 1 + comm.rank)
    pair = comm.split(comm.rank % 2)
    torch.ones(1, 2) @ torch.ones(2, 1)
    tensor = torch.ones(5) * comm.rank
    pair.all_reduce(tensor)
    if pair.rank == 0:
        pair.send(tensor, 1)
    else:
        pair.receive(tensor, 0)
    alone = pair.split(pair.rank)
    alone.all_reduce(tensor)
    comm.broadcast(tensor, 3)
    return tensor


PROGRAMS = (ring, buckets, every_call, groups)


def crossed(logs):
    """As they come out of the process in which they were made."""
    return plain_data.unpack(plain_data.pack(logs))


@pytest.mark.parametrize("program", PROGRAMS)
def test_replay_gives_the_same_events(program):
    plain = CLUSTER.run(program)
    recorded = record(CLUSTER, program)
    run, forged_calls = replay(crossed(recorded.logs), CLUSTER)
    assert forged_calls == 0
    assert run.events == plain.events
    assert plain.communications()
    for result, other in zip(plain.results, recorded.ranks, strict=True):
        assert torch.equal(result.nan_to_num(7), other.nan_to_num(7))


# Rank 1 starts with 10 to 15; rank 0 sends 0 and 1, which are added to 10 and 11.
def test_log_holds_what_went_in_and_what_came():
    log = crossed(record(CLUSTER, ring).logs)[1]
    sent, received = ([each for each in log if each.get("call") == k] for k in ("send", "receive"))
    assert [each["tensor"].tolist() for each in sent[:2]] == [[12, 13], [10, 12]]
    assert received[0]["tensor"] is None
    assert received[0]["result"].tolist() == [0, 1]
    assert [(each["peer"], each["group"]) for each in (sent[0], received[0])] == [(2, 0), (0, 0)]
    assert sorted(each["wait"] for each in log if "wait" in each) == list(range(12))


def entries(logs, kind):
    return [entry for log in logs for entry in log if entry.get("call") == kind]


def changed_result(logs):
    entries(logs, "receive")[3]["result"][0] += 1


def changed_tensor(logs):
    entries(logs, "send")[3]["tensor"][0] += 1


def other_shape(logs):
    entry = entries(logs, "receive")[3]
    entry["result"] = entry["result"][None]


def no_result(logs):
    entries(logs, "receive")[3]["result"] = None


def dropped_call(logs):
    logs[1].remove(next(entry for entry in logs[1] if entry.get("call") == "send"))


def dropped_wait(logs):
    logs[1].remove(next(entry for entry in logs[1] if "wait" in entry))


def extra_call(logs):
    logs[1].append({"call": "send", "group": 0, "peer": 0, "tensor": torch.ones(1), "result": None})


def other_partner(logs):
    entries(logs, "send")[0]["peer"] = 2


def unknown_call(logs):
    entries(logs, "send")[0]["call"] = "run"


def no_rank(logs):
    logs.pop()


def no_log(logs):
    logs[1] = "nothing happened"


@pytest.mark.parametrize(
    "forge",
    [
        *(changed_result, changed_tensor, other_shape, no_result, dropped_call, dropped_wait),
        *(extra_call, other_partner, unknown_call, no_rank, no_log),
    ],
)
def test_forged_log_is_noticed(forge):
    logs = crossed(record(CLUSTER, ring).logs)
    assert replay(logs, CLUSTER).forged_calls == 0
    forge(logs)
    assert replay(logs, CLUSTER).forged_calls == 1


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, "none"])
def test_time_cannot_be_won(seconds):
    logs = record(CLUSTER, ring).logs
    logs[0].insert(0, {"compute": "forward", "seconds": seconds})
    assert replay(logs, CLUSTER).forged_calls == 1


def test_what_a_log_says_beside_the_calls_has_no_effect():
    logs = record(CLUSTER, ring).logs
    honest, claimed = replay(logs, CLUSTER), copy.deepcopy(logs)
    for entry in (entry for log in claimed for entry in log):
        entry |= {"num_bytes": 1, "start_seconds": 0.0, "end_seconds": 0.0}
    assert replay(claimed, CLUSTER).run.events == honest.run.events


def never_answered(comm: Comm) -> None:
    if comm.rank == 0:
        comm.receive(torch.ones(1), 1)


def different(comm: Comm) -> None:
    comm.all_reduce(torch.ones(1 + comm.rank))


def raises(comm: Comm) -> None:
    comm.all_reduce(torch.ones(2, 3).T)


@pytest.mark.parametrize(
    ("program", "error"),
    [(never_answered, DeadlockError), (different, MismatchError), (raises, RankError)],
)
def test_errors_are_those_of_the_cluster(program, error):
    with pytest.raises(error) as plain:
        CLUSTER.run(program)
    with pytest.raises(error) as recorded:
        record(CLUSTER, program)
    assert str(recorded.value) == str(plain.value)
