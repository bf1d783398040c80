"""One grading run: where submissions are graded, each in a process of its own, and by whom."""
