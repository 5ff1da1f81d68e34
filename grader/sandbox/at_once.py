"""at_once: the same work in several threads, each of which asks a sandbox of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable


def at_once(work: Callable[[int], None], count: int) -> None:
    """Calls work(0) to work(count - 1), each in a thread, and raises what the first of them raised once all have ended.

    The threads are daemons, so that Ctrl-C ends the program without them.
    """
    raised: list[BaseException] = []

    def guarded(place: int) -> None:
        try:
            work(place)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(place,), daemon=True) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
