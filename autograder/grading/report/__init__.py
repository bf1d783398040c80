"""What an instructor wants to know of a graded class: its report, likenesses, files for an LMS."""
