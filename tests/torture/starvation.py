"""A broker that runs and loses its descriptors: the kernel gives it no more, whatever it holds."""

import random
import resource
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

STARVES: Final = sys.platform == "linux"
"""Only Linux lets another process alter the limit (prlimit)."""
_FAMINES: Final = 12
_MOST: Final = 120
"""About as many descriptors as the broker of the tortures holds; below that every opening fails."""
_LONGEST_S: Final = 0.05


@contextmanager
def starved(pid: int, rng: random.Random) -> Generator[threading.Event, None, None]:
    """Take descriptors away and give them back, at random moments; the event is set once there are enough for good."""
    fed = threading.Event()
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    famines = [(rng.randrange(_MOST), rng.random() * _LONGEST_S, rng.random() * _LONGEST_S) for _ in range(_FAMINES)]

    def starve() -> None:
        pause = threading.Event()
        try:
            for limit, hungry_s, full_s in famines:
                pause.wait(full_s)
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))
                pause.wait(hungry_s)
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        finally:
            fed.set()

    thread = threading.Thread(target=starve)
    thread.start()
    try:
        yield fed
    finally:
        thread.join()
