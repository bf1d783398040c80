"""Releases of a unit: what was given out, how it changed, and which form of it is graded."""
