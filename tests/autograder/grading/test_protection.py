"""The instructor is told which layers are in force, and which this machine lacks."""

from autograder.grading.sandbox import protection, seccomp


def test_a_machine_that_has_them_all():
    sandbox, *missing = protection.describe(is_unsafe=False)
    assert sandbox == protection.SANDBOXED
    assert len(missing) == (not seccomp.is_supported())


def test_without_a_sandbox_it_says_so_in_capitals():
    assert protection.describe(is_unsafe=True)[0].startswith("UNSAFE: ")


def test_a_machine_without_libseccomp(monkeypatch):
    monkeypatch.setattr(seccomp, "LIBRARY", "libmissing.so.0")
    assert not seccomp.install_filter()
    lines = protection.describe(is_unsafe=False)
    assert sum("libseccomp2" in line for line in lines) == 1


def test_a_libseccomp_that_does_not_know_all_calls(monkeypatch):
    monkeypatch.setattr(seccomp, "REFUSED", (*seccomp.REFUSED, "call_of_tomorrow"))
    assert not seccomp.is_supported()
