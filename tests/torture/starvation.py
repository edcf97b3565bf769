"""A broker that runs and loses its descriptors: the kernel gives it no more, or some calls of its own fail."""

import os
import random
import resource
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from tests.torture.few_descriptors import BEGIN, END

STARVES: Final = sys.platform == "linux"
"""Only Linux lets another process alter the limit (prlimit)."""
_FAMINES: Final = 12
_MOST: Final = 120
"""About as many descriptors as the broker of the tortures holds; below that every opening fails."""
_LONGEST_S: Final = 0.05


@contextmanager
def starved(pid: int, rng: random.Random) -> Generator[threading.Event, None, None]:
    """Take descriptors away and give them back, at random moments; the event is set once there are enough for good."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    limits = [rng.randrange(_MOST) for _ in range(_FAMINES)]

    def take() -> None:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limits.pop(), hard))

    def give() -> None:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    with _famines(rng, take, give) as fed:
        yield fed


@contextmanager
def refused(pid: int, rng: random.Random) -> Generator[threading.Event, None, None]:
    """The same for a broker of `few_descriptors`, which fails some of the calls that give it descriptors."""
    with _famines(rng, lambda: os.kill(pid, BEGIN), lambda: os.kill(pid, END)) as fed:
        yield fed


@contextmanager
def _famines(
    rng: random.Random, begin: Callable[[], None], end: Callable[[], None]
) -> Generator[threading.Event, None, None]:
    fed = threading.Event()
    pauses = [(rng.random() * _LONGEST_S, rng.random() * _LONGEST_S) for _ in range(_FAMINES)]

    def starve() -> None:
        pause = threading.Event()
        try:
            for hungry_s, full_s in pauses:
                pause.wait(full_s)
                begin()
                pause.wait(hungry_s)
                end()
        finally:
            fed.set()

    thread = threading.Thread(target=starve)
    thread.start()
    try:
        yield fed
    finally:
        thread.join()
