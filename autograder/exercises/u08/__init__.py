"""Unit 08: accumulation and batch size. The check of `u08-some-name` is `some_name.CHECK`."""
