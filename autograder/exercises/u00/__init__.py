"""Unit 00: start here. The check of `u00-some-name` is `some_name.CHECK`."""
