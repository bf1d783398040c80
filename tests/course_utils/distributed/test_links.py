"""Costs of messages derived by hand, and invalid links."""

import pytest

from course_utils.distributed import Link, Network

# One second per message and one per byte, so that costs can be read off.
UNIT = Link(latency_seconds=1.0, bandwidth_bytes_per_second=1.0)
SLOW = Link(latency_seconds=100.0, bandwidth_bytes_per_second=0.5)

# By hand, for n = 5 ranks and S = 35 bytes.
#
#    all-reduce            2 * 4 messages, and 2 * 4/5 of 35 bytes           8 + 56
#    gather, scatter           4 messages, and     4/5 of 35 bytes           4 + 28
#    broadcast                 4 messages, and          35 bytes             4 + 35
COSTS = [
    ("all_reduce", 64),
    ("all_gather", 32),
    ("reduce_scatter", 32),
    ("broadcast", 39),
    ("send", 36),
]


@pytest.mark.parametrize(("kind", "seconds"), COSTS)
def test_costs_by_hand(kind, seconds):
    network = Network(inside=UNIT)
    # division by five is inexact in binary
    assert network.seconds(kind, 35, range(5)) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
def test_one_rank_alone_pays_nothing(kind):
    assert Network(inside=UNIT).seconds(kind, 35, [3]) == 0


def test_a_barrier_is_an_all_reduce_of_nothing():
    assert Network(inside=UNIT).seconds("barrier", 0, range(5)) == 8


def test_the_slowest_link_of_a_group_counts():
    network = Network(inside=UNIT, between=SLOW, devices_per_node=4)
    assert network.seconds("send", 10, [4, 7]) == 11
    assert network.seconds("send", 10, [3, 4]) == 120
    assert network.link([0, 1, 2, 3]) == UNIT
    assert network.link([0, 4]) == SLOW
    # 2 * 7 messages of 100 s, and 2 * 7/8 of 16 bytes at half a byte per second
    assert network.seconds("all_reduce", 16, range(8)) == 1400 + 56


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Link(latency_seconds=-1, bandwidth_bytes_per_second=1), "latency_seconds must"),
        (lambda: Link(latency_seconds=0, bandwidth_bytes_per_second=0), "bandwidth_bytes_per_s"),
        (lambda: Network(inside=UNIT, between=SLOW), "both `between` and `devices_per_node`"),
        (lambda: Network(inside=UNIT, devices_per_node=8), "both `between` and"),
        (lambda: Network(inside=UNIT, between=SLOW, devices_per_node=0), "devices_per_node must"),
    ],
    ids=["latency", "bandwidth", "no size", "no link", "no device"],
)
def test_invalid_links_and_networks_are_refused(build, words):
    with pytest.raises(ValueError, match=words):
        build()
