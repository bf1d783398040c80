"""What several checks of unit 05 use."""
