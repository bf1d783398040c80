"""Unit 09: data parallelism. The check of `u09-some-name` is `some_name.CHECK`."""
