"""What a course keeps in nbgrader's gradebook: grades, releases, what each was graded from."""
