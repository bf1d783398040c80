"""Every number of a GPU comes from a record that says where it is from."""

import json

from course_utils.records import FOLDER, measured


def test_every_committed_record_says_where_it_is_from():
    for path in FOLDER.glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        if "part" in record:
            assert record["is_from_gpu"] and record["driver"], path.name
        versions = record.get("versions", record)
        assert record["date"] and record["command"] and versions["torch"], path.name


def test_what_a_cpu_measured_is_no_record(tmp_path):
    for name, is_from_gpu in (("memory-b", True), ("memory-a", False), ("counts-a", True)):
        record = {"is_from_gpu": is_from_gpu, "device": name}
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    assert [each["device"] for each in measured("memory", tmp_path)] == ["memory-b"]
