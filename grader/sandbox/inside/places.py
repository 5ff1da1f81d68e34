"""Where things lie in a sandbox: what may be written, where the grader's modules are, what a package's folder must not open."""

from __future__ import annotations

GRADER = "/grader-inside"
"""Where the packages of the grader that run in there are mounted: a name that no checkout has."""

PRIVATE = ("/tmp", "/dev/shm")
"""File systems of a sandbox's own, empty at its start, where it may write."""

SCRATCH = "/tmp/grading"


def enclosing(path: str) -> str | None:
    """The folder right below a private one that encloses `path`: a mount of its own, or a package there would open it to writing."""
    for private in PRIVATE:
        if path.startswith(f"{private}/"):
            first = path.removeprefix(f"{private}/").split("/", 1)[0]
            top = f"{private}/{first}"
            return top if top != path else None
    return None
