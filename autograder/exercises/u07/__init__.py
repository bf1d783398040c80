"""Unit 07: mixed precision. The check of `u07-some-name` is `some_name.CHECK`."""
