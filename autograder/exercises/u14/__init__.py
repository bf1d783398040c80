"""Unit 14: checks of its exercises."""
