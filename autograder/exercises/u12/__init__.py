"""Unit 12: checks of its exercises."""
