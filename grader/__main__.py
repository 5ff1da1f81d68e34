"""`python -m grader`: see grader/cli.py."""

from grader.cli import app

if __name__ == "__main__":
    app(prog_name="python -m grader")
