"""What several checks of unit 04 use."""
