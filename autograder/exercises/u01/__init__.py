"""Unit 01: transformer FLOPs. The check of `u01-some-name` is `some_name.CHECK`."""
