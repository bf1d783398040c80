"""The course on a JupyterHub: one environment for all students, who get no answers with it.

`python -m autograder.hub install` runs once, as root, in the students' copy of the course;
`start` is what the hub starts for an account; `doctor` says what is wrong. docs/hub.md leads
through it.
"""
