"""Unit 14: what is observed of its exercises."""
