"""Unit 03: memory accounting. The check of `u03-some-name` is `some_name.CHECK`."""
