"""What is observed of the answers to the exercises of unit 03."""
