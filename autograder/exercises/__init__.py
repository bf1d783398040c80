"""For each exercise: its cases, what is observed, how it is judged, and the known mistakes."""
