"""From text masters to instructor notebooks, releases and the student bundle."""

from autograder.startup import skip_slow_imports

skip_slow_imports()
