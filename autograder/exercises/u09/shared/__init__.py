"""What several checks of unit 09 use."""
