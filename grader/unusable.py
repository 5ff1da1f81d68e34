"""One class for what a command, a file or a machine lacks: its message is what the person who typed the command reads."""

from __future__ import annotations


class Unusable(ValueError):
    """What was given cannot be used; the message says what was found, what was expected and what to do next."""
