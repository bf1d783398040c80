"""From text masters to instructor notebooks, releases and the student bundle."""

from autograder.startup import hurry

hurry()
