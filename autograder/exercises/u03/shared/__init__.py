"""What several checks of unit 03 use."""
