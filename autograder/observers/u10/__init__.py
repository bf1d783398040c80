"""What is observed of answers in unit 10."""
