"""What several checks of unit 07 use."""
