"""Unit 13: what is observed of its implementations."""
