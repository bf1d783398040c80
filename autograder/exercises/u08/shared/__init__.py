"""What several checks of unit 08 use."""
