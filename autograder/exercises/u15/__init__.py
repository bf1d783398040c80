"""Unit 15: a bug clinic. The check of `u15-some-name` is `some_name.CHECK`."""
