"""What checks of unit 07 use."""
