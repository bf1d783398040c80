"""Grade a whole class: intake, sandbox, referee and store, as plug-ins of nbgrader."""
