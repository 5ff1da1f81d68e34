"""`python -m grader`: see grader/cli/main.py. The processes that it starts import this module again, and need nothing of it."""

if __name__ == "__main__":
    from grader.cli.main import app

    app(prog_name="python -m grader")
