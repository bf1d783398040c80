"""Grade a whole class: intake, sandbox, referee and gradebook writer, as plug-ins of nbgrader."""

from autograder.startup import hurry

hurry()
