"""What several checks of unit 15 use."""
