"""Unit 10: sharding. The check of `u10-some-name` is `some_name.CHECK`."""
