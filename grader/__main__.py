"""`python -m grader`: see grader/cli/main.py. The processes that it starts import this module again, and need nothing of it."""

if __name__ == "__main__":
    import atexit
    import gc

    gc.set_threshold(50_000)  # importing torch allocates much and frees little: a third of a second for nothing
    atexit.register(gc.freeze)  # the end of the process takes no module apart: half a second
    from grader.cli.main import app

    app(prog_name="python -m grader")
