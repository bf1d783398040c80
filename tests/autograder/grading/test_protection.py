"""The instructor is told which layers are in force, and which this machine lacks."""

import platform

from autograder.grading.sandbox import integrity, protection


def test_a_machine_that_has_them_all():
    sandbox, *missing = protection.describe(is_unsafe=False)
    assert sandbox == protection.SANDBOXED
    is_known = platform.machine() in {"x86_64", "aarch64"}
    assert len(missing) == (not is_known) + (not integrity.has_version_tags())


def test_without_a_sandbox_it_says_so_in_capitals():
    assert protection.describe(is_unsafe=True)[0].startswith("UNSAFE: ")


def test_a_machine_whose_system_calls_are_unknown(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert any("riscv64: the filter" in line for line in protection.describe(is_unsafe=False))


def test_a_python_without_version_tags(monkeypatch):
    monkeypatch.setattr(integrity, "has_version_tags", lambda: False)
    assert any(
        "the version tags of dictionaries" in line for line in protection.describe(is_unsafe=False)
    )
