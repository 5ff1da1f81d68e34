"""`python -m grader`: see grader/cli/main.py. The processes that it starts import this module again, for its first lines."""

import atexit
import gc

gc.set_threshold(50_000)  # importing torch allocates much and frees little
atexit.register(gc.freeze)  # the end of the process takes no module apart

if __name__ == "__main__":
    from grader.cli.main import app

    app(prog_name="python -m grader")
