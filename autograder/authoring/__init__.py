"""From text masters to instructor notebooks, releases and the student bundle."""
