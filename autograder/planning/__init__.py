"""A student's own functions, as a module that can be imported, and the plan that they make."""
