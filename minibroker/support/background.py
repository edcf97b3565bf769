"""Work that would hold up the event loop and cannot be cut into slices, such as an fsync, is done on a thread."""

from collections.abc import Callable
from typing import Protocol


class Background(Protocol):
    """The threads of a broker."""

    def __call__(self, work: Callable[[], None], then: Callable[[], None] | None = None) -> object:
        """Run `work` aside from the event loop, then `then` on it. `work` handles its errors itself."""
        ...
