"""What several checks of unit 02 use."""
