"""The real nbgrader commands and grading processes, from the command line to the gradebook."""
