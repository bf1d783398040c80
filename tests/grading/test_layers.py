"""The instructor is told which layers hold, and which this machine lacks."""

import platform

from course_utils.grading.sandbox import layers, tamper


def test_a_machine_that_has_them_all():
    closed, *missing = layers.sentences(is_unsafe=False)
    assert closed == layers.CLOSED
    is_known = platform.machine() in {"x86_64", "aarch64"}
    assert len(missing) == (not is_known) + (not tamper.counts_changes())


def test_without_a_room_it_says_so_in_capitals():
    assert layers.sentences(is_unsafe=True)[0].startswith("UNSAFE: ")


def test_a_machine_whose_calls_nobody_knows(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert any("riscv64: the filter" in line for line in layers.sentences(is_unsafe=False))


def test_a_python_that_does_not_count(monkeypatch):
    monkeypatch.setattr(tamper, "counts_changes", lambda: False)
    assert any("the count of changes" in line for line in layers.sentences(is_unsafe=False))
