"""Rates from tables: the shape that was measured, the links that a group has."""

from dataclasses import replace

import pytest

from course_utils.configs import machine_of
from course_utils.formulas.rates import Group, nearest, ring_share
from course_utils.planner.rates import H100, cluster_rates, rates_of, simumax_rates
from course_utils.records.sweeps import rows


def test_a_measured_shape_has_its_own_rate():
    rates = simumax_rates("A100-PCIe-80")
    row = next(row for row in rows("simumax_rates") if row["role"] == "forward")
    shape = tuple(int(row[name]) for name in "mkn")
    peak = float(row["peak_tflops"]) * 1e12
    assert rates.products["forward"][shape] == float(row["efficiency"]) * peak
    assert nearest({(8, 8): 1.0, (8, 64): 2.0}, (8, 30)) == 2.0


@pytest.mark.parametrize("rates", [rates_of(H100), simumax_rates("B200")])
def test_one_rank_sends_nothing_and_more_bytes_take_longer(rates):
    assert rates.collective("all_reduce", 10**9, Group(1)) == 0
    short, long = (rates.collective("all_gather", n, Group(8)) for n in (10**6, 10**9))
    assert 0 < short < long


def test_links_beyond_a_node_have_the_rate_of_so_many_nodes():
    bus = cluster_rates("all_reduce")
    seconds = rates_of(H100).collective("all_reduce", 10**9, Group(32))
    assert seconds == ring_share("all_reduce", 32) * 10**9 / bus[4,]


def test_rings_that_share_adapters_are_slower_by_the_root_of_their_number():
    alone = rates_of(H100).collective("all_gather", 10**9, Group(16))
    shared = rates_of(H100).collective("all_gather", 10**9, Group(16, stride=4))
    nodes = cluster_rates("all_gather")
    assert shared / alone == pytest.approx(2 * nodes[2,] / nodes[8,])


def test_a_number_of_ranks_that_nobody_measured_has_the_rate_of_the_nearest():
    assert rates_of(H100).collective("all_reduce", 10**9, Group(7)) > 0


def test_groups_span_nodes():
    assert [Group(8).num_nodes, Group(2, 4).num_nodes, Group(2, 8).num_nodes] == [1, 1, 2]


def test_without_a_table_a_ring_uses_every_adapter_and_rings_share_them():
    """25 GB/s for each of eight devices of a node; two rings of four have a hundred."""
    rates = rates_of(machine_of("A100-80", num_devices=16))
    seconds = {n: rates.collective("all_gather", 10**9, Group(16, stride=n)) for n in (1, 2, 8)}
    assert seconds == pytest.approx({n: 15 / 16 / (8 / n * 25) for n in (1, 2, 8)})
    assert rates.to_next_stage(10**9, 8) == pytest.approx(1 / 25)
    assert rates.collective("all_gather", 10**9, Group(8)) == pytest.approx(7 / 8 / 234.89)


@pytest.mark.parametrize("stride", [1, 8])
def test_twice_as_fast_links_halve_what_they_carry_and_nothing_else(stride):
    group, machine = Group(8, stride), replace(H100, num_devices=64)
    name = "link" if stride == 1 else "adapter"
    for faster in ("link", "adapter"):
        rate = f"{faster}_bytes_per_second"
        other = rates_of(replace(machine, **{rate: 2 * getattr(machine, rate)}))
        ratio = other.collective("all_reduce", 10**9, group)
        ratio /= rates_of(machine).collective("all_reduce", 10**9, group)
        assert ratio == (0.5 if faster == name else 1)
