"""What several checks of unit 11 use."""
