"""What a check is: cases, observations, judges, hints, verdicts, and the calls in notebooks."""
