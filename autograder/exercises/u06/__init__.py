"""Unit 06: checks of its exercises."""
