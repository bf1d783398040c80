"""The instructor is told which layers are in force, and which this machine lacks."""

import types

import pytest

from autograder.grading.sandbox import integrity, protection, seccomp


def test_a_machine_that_has_them_all():
    sandbox, *missing = protection.describe(is_unsafe=False)
    assert sandbox == protection.SANDBOXED
    assert len(missing) == (not seccomp.is_supported()) + (not integrity.has_version_tags())


def test_without_a_sandbox_it_says_so_in_capitals():
    assert protection.describe(is_unsafe=True)[0].startswith("UNSAFE: ")


def test_a_machine_without_libseccomp(monkeypatch):
    monkeypatch.setattr(seccomp, "LIBRARY", "libmissing.so.0")
    assert not seccomp.install_filter(1000, 1)
    lines = protection.describe(is_unsafe=False)
    assert sum("libseccomp2" in line for line in lines) == 1


def test_a_libseccomp_that_does_not_know_all_calls(monkeypatch):
    monkeypatch.setattr(seccomp, "REFUSED", (*seccomp.REFUSED, "call_of_tomorrow"))
    assert not seccomp.is_supported()


def test_a_python_without_version_tags(monkeypatch):
    monkeypatch.setattr(integrity, "has_version_tags", lambda: False)
    assert any(
        "the version tags of dictionaries" in line for line in protection.describe(is_unsafe=False)
    )


def test_a_warning_in_a_part_of_the_course_replaces_nothing():
    part = types.ModuleType("autograder.checking.part")
    exec("import warnings\ndef warn():\n    warnings.warn('as torch does')", vars(part))
    read_versions, find_change = integrity.seal({part.__name__: part})
    before = read_versions()
    with pytest.warns(UserWarning, match="as torch does"):
        part.warn()
    assert find_change(before) == ""
    part.warn = print
    assert find_change(before) == "autograder.checking.part"
