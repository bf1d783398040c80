"""Unit 05: activation recomputation. The check of `u05-some-name` is `some_name.CHECK`."""
