"""Programs in the place of the process that owns a GPU. What they import is imported at each start, so it is little."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def jobs(connection):
    """Greets, and yields what is asked until the pipe closes."""
    connection.send("ready")
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return


def acts(connection, gpu):
    """Does to each part what it says; a part "once PATH" kills the process the first time only."""
    for parts in jobs(connection):
        for part in parts:
            word, _, path = part.partition(" ")
            if word == "die" or (word == "once" and not Path(path).exists()):
                Path(path or os.devnull).touch()
                os._exit(1)
            if word == "dies" or (word == "twice" and len(os.listdir(path)) < 2):
                (Path(path) / str(time.monotonic_ns())).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if word == "hang":
                time.sleep(60)
            connection.send((part, word == "poison"))
            if word == "poison":
                return


def ends_at_once(connection, gpu):
    return


def vanishes(connection, gpu):
    """Is killed from outside whenever it works."""
    connection.send("ready")
    connection.recv_bytes()
    os.kill(os.getpid(), signal.SIGKILL)
