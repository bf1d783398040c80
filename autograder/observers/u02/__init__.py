"""What is observed of the implementations of unit 02."""
