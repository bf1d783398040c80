"""Tables of sweeps and rates: whole, with a source, and right where a row can be computed."""

import pytest

from course_utils.records import sweeps
from course_utils.records.sweeps import runs

NUM_ROWS = {
    "h100_gemm_rates": 93,
    "h100_nccl_rates": 189,
    "playbook_bandwidth": 21,
    "playbook_failed": 1578,
    "playbook_runs": 1728,
    "simumax_a100_pcie": 12,
    "simumax_b200": 31,
    "simumax_bandwidths": 44,
    "simumax_rates": 785,
}


def test_no_table_is_without_a_number_of_rows():
    assert {path.stem for path in sweeps.FOLDER.glob("*.csv")} == set(NUM_ROWS)


@pytest.mark.parametrize("table", NUM_ROWS)
def test_every_table_is_whole_and_names_source_licence_and_units(table):
    assert len(sweeps.rows(table)) == NUM_ROWS[table]
    said = " ".join(sweeps.header(table))
    assert "# source: " in said and "commit " in said
    assert "licence: " in said and "units: " in said
    assert f"`{table}.csv` ({NUM_ROWS[table]:,})" in (sweeps.FOLDER / "README.md").read_text(
        encoding="utf-8"
    )


def test_the_playbook_says_what_its_memory_is():
    for table in ("playbook_runs", "playbook_failed"):
        said = " ".join(sweeps.header(table))
        assert "max_memory_reserved / 2^30" in said and "world rank 0" in said


def test_every_printed_utilisation_follows_from_the_row_itself():
    printed = [float(row["printed_percent"]) for row in sweeps.rows("playbook_runs")]
    for run, percent in zip(runs("playbook_runs"), printed, strict=True):
        attention = 12 * run.num_layers * run.hidden_size * run.seq_len
        tokens = run.num_sequences * run.seq_len / (8 * run.nodes * run.step_seconds)
        mfu = 100 * (6e9 * run.counted_params + attention) * tokens / 989e12
        assert mfu == pytest.approx(percent, rel=1.5e-3), run.name


@pytest.mark.parametrize("table", ["playbook_runs", "playbook_failed", "simumax_b200"])
def test_layouts_use_all_devices_of_their_nodes(table):
    for run in runs(table):
        assert run.data * run.pipeline * run.tensor * run.context == 8 * run.nodes, run.name


def test_rows_of_another_model_are_told_by_what_their_utilisation_counts():
    odd = [x for x in runs("playbook_runs") if x.num_kv_heads == 8 or x.vocab_size == 49152]
    assert len(odd) == 16
    assert {run.model for run in odd} == {"80.0"}


def test_memory_is_given_where_it_was_measured():
    measured = [run for run in runs("simumax_b200") if run.first_rank_gib]
    assert len(measured) == 15
    assert all(run.last_rank_gib for run in measured)
