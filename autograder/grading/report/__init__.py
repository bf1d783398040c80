"""Reports on a graded class: a page, code that is the course's own, grades for an LMS."""
