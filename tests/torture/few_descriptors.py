"""The calls that give out a descriptor fail at random moments, as if the process or the machine had none left.

That hits one call and lets the next one pass, which a limit of the kernel never does.
"""

import builtins
import errno
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE)
_SHARES: Final = (0.2, 0.5, 0.8, 1.0)
_GIVING: Final = (
    (builtins, "open"),
    (os, "dup"),
    (os, "listdir"),
    (os, "open"),
    (os, "scandir"),
    (socket.socket, "accept"),
    (socket.socket, "dup"),
)


class FewDescriptors:
    """Stands before those calls of this process.

    `thread` is the only one whose calls fail (`threading.get_ident`), where others of the process are none of its
    business: clients and brokers that several tests share.

    Attributes:
        refused: how many calls have failed.
    """

    def __init__(self, rng: random.Random, *, thread: int | None = None) -> None:
        self.refused = 0
        self._rng = rng
        self._thread = thread
        self._share = 0.0

    def begin(self) -> None:
        """From now on some calls fail, or all."""
        self._share = self._rng.choice(_SHARES)

    def end(self) -> None:
        """From now on none fails."""
        self._share = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Guard the calls within the block."""
        with ExitStack() as stack:
            for owner, name in _GIVING:
                stack.enter_context(patch.object(owner, name, self._guarded(name, getattr(owner, name))))
            yield

    def _guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            gives_none = name == "open" and isinstance(arguments[0], int)
            is_meant = self._thread in {None, threading.get_ident()}
            if self._share and is_meant and not gives_none and self._fails_now():
                error = self._rng.choice(_SHORTAGES)
                raise OSError(error, os.strerror(error), *(each for each in arguments[:1] if isinstance(each, str)))
            return real(*arguments, **named)

        return call

    def _fails_now(self) -> bool:
        fails = self._rng.random() < self._share
        self.refused += fails
        return fails
