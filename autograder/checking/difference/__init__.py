"""What is simple about a wrong answer, over all cases: hints where no known mistake explains it."""
