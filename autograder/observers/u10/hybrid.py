"""What is observed of a sum in hybrid sharding: the part of each rank, and all calls."""

from typing import Any

from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_different
from autograder.observers.on_ranks import record_on_cluster
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of, require_tensor
from course_utils.distributed import Comm, Link, Network, VirtualCluster

INSIDE = Link(latency_seconds=1e-6, bandwidth_bytes_per_second=8e7)
BETWEEN = Link(latency_seconds=1e-5, bandwidth_bytes_per_second=8e6)


def cluster_of(case: Case) -> VirtualCluster:
    """Nodes with fast links inside and slow ones between."""
    size = case["node_size"]
    network = Network(inside=INSIDE, between=BETWEEN, devices_per_node=size)
    return VirtualCluster(size * case["num_nodes"], network=network)


def gradient_of(case: Case, rank: int) -> Tensor:
    """A rank's share of the gradient."""
    (gradient,) = normal_numbers(rank, case["node_size"] * case["part_length"])
    return gradient


def _on_rank(comm: Comm, answer: Any, case: Case) -> Tensor:
    part = answer(comm, gradient_of(case, comm.rank), case["node_size"])
    return require_tensor(part).detach().clone()


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The part of each rank, and what each rank did."""
    recorded = record_on_cluster(cluster_of(case), _on_rank, answer, case)
    return {"parts": recorded.ranks, "logs": recorded.logs}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Parts beside the right ones; bytes inside of a node and beyond it, and time."""
    run, forged_calls = replay(observed["logs"], cluster_of(case))
    parts = zip(observed["parts"], right["parts"], strict=True)
    sent = [run.sent_bytes(rank) for rank in range(run.num_ranks)]
    return [
        forged(forged_calls),
        Fact(
            "part_length",
            observed["parts"][0].numel(),
            "numbers in rank 0's part",
            "Among how many ranks is a copy shared?",
        ),
        Fact(
            "wrong_parts",
            sum(num_different([one], [other]) for one, other in parts),
            "ranks with a wrong part",
            "Which ranks hold the same part, and whose gradients belong into it?",
        ),
        Fact(
            "length",
            length_of(observed["parts"]),
            "the norm of all parts",
            "Whose shares are summed in each rank's part, and how often does each share come in?",
        ),
        Fact(
            "sent_bytes",
            max(right["sent_bytes"], sum(sent)),
            "bytes that all ranks send",
            "The parts are right, too many bytes travel. Which calls do you make, over how many "
            "numbers?",
        ),
        Fact(
            "seconds",
            max(right["seconds"], run.step_seconds),
            "virtual seconds",
            "How many bytes have to cross the slow links, once a node has summed?",
        ),
    ]
