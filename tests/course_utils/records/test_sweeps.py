"""Tables of sweeps and rates: whole, with a source, and right where a row can be computed."""

import pytest

from course_utils.records import sweeps
from course_utils.records.sweeps import playbook_failures, playbook_runs, simumax_runs


@pytest.mark.parametrize("table", sweeps.NUM_ROWS)
def test_every_table_is_whole_and_names_source_licence_and_units(table):
    assert len(sweeps.rows(table)) == sweeps.NUM_ROWS[table]
    said = " ".join(sweeps.header(table))
    assert "# source: " in said and "commit " in said
    assert "licence: " in said and "units: " in said


def test_the_playbook_says_what_its_memory_is():
    for table in ("playbook_runs", "playbook_failed"):
        said = " ".join(sweeps.header(table))
        assert "max_memory_reserved / 2^30" in said and "world rank 0" in said


def test_every_printed_utilisation_follows_from_the_row_itself():
    printed = [float(row["mfu_percent"]) for row in sweeps.rows("playbook_runs")]
    for run, percent in zip(playbook_runs(), printed, strict=True):
        attention = 12 * run.num_layers * run.hidden_size * run.seq_len
        flops = 6e9 * run.counted_params + attention
        mfu = 100 * flops * run.tokens_per_second_per_device / 989e12
        assert mfu == pytest.approx(percent, rel=1.5e-3), run.name


def test_layouts_use_all_devices_of_their_nodes():
    for run in (*playbook_runs(), *playbook_failures()):
        assert run.num_devices == 8 * run.nodes or run.nodes == 0, run.name


def test_rows_of_another_model_are_told_by_what_their_utilisation_counts():
    odd = [run for run in playbook_runs() if run.num_kv_heads == 8 or run.vocab_size == 49152]
    assert len(odd) == 16
    assert {run.size for run in odd} == {80.0}


def test_memory_is_given_where_it_was_measured():
    runs = simumax_runs("B200")
    assert sum(bool(run.allocated_gib) for run in runs) == 19
    assert all(len(run.allocated_gib) in (0, 8) for run in runs)
    assert not any(run.allocated_gib for run in simumax_runs("A100-PCIe-80"))
