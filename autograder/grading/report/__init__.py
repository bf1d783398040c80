"""Reports on a graded class: a page, answers that resemble each other, grades for an LMS."""
