"""Grade a whole class: intake, sandbox, referee and gradebook writer, as plug-ins of nbgrader."""

from autograder.startup import skip_slow_imports

skip_slow_imports()
