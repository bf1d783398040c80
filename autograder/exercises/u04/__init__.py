"""Unit 04: memory profiling. The check of `u04-some-name` is `some_name.CHECK`."""
