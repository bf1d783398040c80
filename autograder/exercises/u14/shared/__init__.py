"""Unit 14: what several of its checks use."""
