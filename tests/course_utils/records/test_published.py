"""Published rows: all there, and each one's printed utilisation follows from its own throughput."""

import re

import pytest

from course_utils.configs import device
from course_utils.records import SOURCES, foundry_runs, one_node_runs, published
from course_utils.records.published import CONTRADICTIONS

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


def test_each_contradiction_belongs_to_one_run_on_one_node():
    runs = [*one_node_runs("A100-80"), *one_node_runs("H100")]
    found = [run for run in runs if run.contradiction]
    assert len(found) == len(CONTRADICTIONS) == 8
    assert {run.contradiction for run in one_node_runs("A100-40")} == {"no script has it"}


def test_what_a_contradiction_says_is_not_what_the_table_prints():
    for run in [*one_node_runs("A100-80"), *one_node_runs("H100")]:
        printed = f"micro-batch {run.micro_batch_sequences}, accumulation {run.accumulation}"
        assert not run.contradiction.endswith(printed)
        if before := re.match(r"([\d,]+) tokens/s in the table before", run.contradiction):
            earlier = int(before[1].replace(",", ""))
            assert run.tokens_per_second_per_device < 0.97 * earlier


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
