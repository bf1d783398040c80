"""Formulas of the course: integers in, integers out, and no torch."""
