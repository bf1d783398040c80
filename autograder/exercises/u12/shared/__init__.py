"""What several checks of unit 12 use."""
