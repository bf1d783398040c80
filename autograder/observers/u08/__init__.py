"""What is observed of the answers to unit 08."""
