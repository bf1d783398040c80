"""Unit 13: checks of its exercises."""
