"""Unit 11: tensor and context parallelism. The check of `u11-some-name` is `some_name.CHECK`."""
