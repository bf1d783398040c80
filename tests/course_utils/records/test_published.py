"""Published rows: all there, and each one's printed utilisation follows from its own throughput."""

import pytest

from course_utils.configs import device
from course_utils.records import SOURCES, foundry_runs, one_node_runs, published

NUM_ROWS = {
    "mosaicml_llm_foundry": 216,
    "korthikanti_2022_table5": 8,
    "megatron_2021": 10,
    "megatron_core_h100": 9,
}
DEVICES = {"A100-80": "A100-80", "A100-40": "A100-40", "H100": "H100-SXM"}
PRINTED = 0.012  # sizes are rounded, and so are percentages


@pytest.mark.parametrize("table", SOURCES)
def test_every_table_is_whole_and_names_its_source(table):
    assert len(published(table)) == NUM_ROWS[table]
    assert all(vars(SOURCES[table]).values())


def test_one_node_rows_are_those_of_one_precision():
    counts = {device: len(one_node_runs(device)) for device in DEVICES}
    assert counts == {"A100-80": 59, "A100-40": 46, "H100": 37}


def test_every_printed_mfu_follows_from_the_row_itself():
    for run in foundry_runs():
        kind = "fp8" if run.precision == "amp_fp8" else "bf16"
        peak = device(DEVICES[run.device]).dense_flops_per_second(kind)
        core = 12 * run.num_layers * run.hidden_size * run.seq_len
        flops = (6 * run.num_parameters + core) * run.tokens_per_second_per_device
        assert 100 * flops / peak == pytest.approx(run.published_mfu_percent, rel=PRINTED), run.name


def test_printed_hfu_is_a_definition():
    for run in foundry_runs():
        factor = 4 / 3 if run.recompute_all_layers else 1
        assert run.published_hfu_percent == pytest.approx(
            factor * run.published_mfu_percent, abs=0.02
        )
