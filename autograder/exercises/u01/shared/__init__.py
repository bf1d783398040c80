"""What several checks of unit 01 use."""
