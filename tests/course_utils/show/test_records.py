"""GPU numbers are shown with their record, and never without one."""

import json

import pytest

from course_utils.records import FOLDER
from course_utils.show.records import recorded

RECORD = {
    "part": "memory",
    "is_from_gpu": True,
    "device": "NVIDIA H200",
    "driver": "580.1",
    "torch": "2.13.0",
    "date": "2026-01-31",
    "command": "python -m tests.gpu.measure --part memory",
    "results": [
        {"model_name": "tiny", "measured": {"allocated_bytes": 512}},
        {"model_name": "large", "measured": None},
    ],
}


def write(folder, name, **changes):
    (folder / name).write_text(json.dumps(RECORD | changes), encoding="utf-8")


def test_rows_come_with_device_date_and_command(tmp_path, capsys):
    write(tmp_path, "memory-h200.json")
    table = recorded("memory", ["model_name", "measured.allocated_bytes"], folder=tmp_path)
    assert table.to_dict("records") == [{"model_name": "tiny", "measured.allocated_bytes": 512}]
    printed = capsys.readouterr().out
    for part in ("NVIDIA H200", "580.1", "2.13.0", "2026-01-31", "--part memory"):
        assert part in printed


@pytest.mark.parametrize("changes", [{"is_from_gpu": False}, None], ids=["of a CPU", "none"])
def test_without_a_record_of_a_gpu_no_number_is_shown(tmp_path, capsys, changes):
    if changes:
        write(tmp_path, "memory-cpu.json", **changes)
    assert recorded("memory", ["model_name"], folder=tmp_path) is None
    assert "Nothing has been recorded on a GPU yet" in capsys.readouterr().out


def test_every_committed_record_says_where_it_is_from():
    for path in FOLDER.glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        if "part" in record and not path.stem.endswith("-tiny"):
            assert record["is_from_gpu"] and record["driver"], path.name
        versions = record.get("versions", record)
        assert record["date"] and record["command"] and versions["torch"], path.name
