"""A class in one run: intake -> tasks, spread by an engine -> journal -> standings -> reports."""
