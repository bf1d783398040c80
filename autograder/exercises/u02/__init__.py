"""Checks of unit 02: profiling and the roofline."""
