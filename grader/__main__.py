"""`python -m grader`: see grader/cli/main.py. The processes that it starts import this module again, for its first lines."""

import atexit
import gc
import os
import signal
import sys

gc.set_threshold(50_000)  # importing torch allocates much and frees little
atexit.register(gc.freeze)  # the end of the process takes no module apart


def stopped(*_: object) -> None:
    """Ctrl-C before a command has begun."""
    print("stopped", file=sys.stderr, flush=True)
    os._exit(130)


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stopped)
    from grader.cli.main import app

    app(prog_name="python -m grader")
