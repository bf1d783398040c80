"""The form of a record: that of the committed ones, and their names."""

import json

import pytest
import torch

from course_utils.configs import device
from course_utils.instruments.device_record import (
    dense_peak_flops_per_second,
    empty_record,
    write_record,
)
from course_utils.records import FOLDER, measured


@pytest.mark.parametrize("part", ["times", "memory", "counts", "utilisation"])
def test_a_record_has_the_form_of_the_committed_ones(part):
    made = empty_record(part, device="cpu", command="a command")
    for record in measured(part):
        assert list(made) == [name for name in record if name != "took_seconds"]


def test_a_record_is_written_under_the_name_of_its_device(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    record = empty_record("times", device="cuda", command="a command")
    path = write_record(record | {"results": [{"what": "copy"}]}, tmp_path / "new")
    assert path == tmp_path / "new" / "times-h200.json"
    assert (FOLDER / path.name).exists()
    assert measured("times", path.parent)[0]["results"] == [{"what": "copy"}]


def test_a_record_from_a_cpu_says_so_and_is_not_among_the_measured(tmp_path):
    record = empty_record("times", device="cpu", command="a command", is_tiny=True)
    path = write_record(record, tmp_path)
    assert path.name == "times-cpu-tiny.json"
    assert not json.loads(path.read_text("utf-8"))["is_from_gpu"]
    assert measured("times", tmp_path) == []


@pytest.mark.parametrize(
    ("name", "sheet"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100-80"),
    ],
)
def test_a_peak_is_that_of_the_data_sheet(name, sheet):
    assert dense_peak_flops_per_second(name) == device(sheet).dense_flops_per_second("bf16")


def test_a_cpu_has_no_data_sheet():
    assert dense_peak_flops_per_second("CPU") is None
