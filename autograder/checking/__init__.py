"""Checks: cases, observations, judges, hints, verdicts, and the functions that notebooks call."""
