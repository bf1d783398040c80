"""The instructor is told which layers hold, and which this machine lacks."""

import platform

from autograder.grading.sandbox import integrity, protection


def test_a_machine_that_has_them_all():
    closed, *missing = protection.sentences(is_unsafe=False)
    assert closed == protection.CLOSED
    is_known = platform.machine() in {"x86_64", "aarch64"}
    assert len(missing) == (not is_known) + (not integrity.counts_changes())


def test_without_a_room_it_says_so_in_capitals():
    assert protection.sentences(is_unsafe=True)[0].startswith("UNSAFE: ")


def test_a_machine_whose_calls_nobody_knows(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert any("riscv64: the filter" in line for line in protection.sentences(is_unsafe=False))


def test_a_python_that_does_not_count(monkeypatch):
    monkeypatch.setattr(integrity, "counts_changes", lambda: False)
    assert any("the count of changes" in line for line in protection.sentences(is_unsafe=False))
