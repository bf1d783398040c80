"""What is observed of the answers in unit 11."""
