"""Metadata is on disk before the request that has changed it is answered.

The fsyncs run aside from the event loop, one round at a time: what changes while one runs waits for the next. A request
that was held is answered also when its fsync has failed, with an error in the log: the change counts for this run, and
an error would deny it. The next change tries again.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from minibroker.metadata.metadata_file import MetadataFile

if TYPE_CHECKING:
    from minibroker.background import Background
    from minibroker.call import Parked

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class Durability:
    """The metadata files of one data directory.

    Args:
        call_soon: runs a callback once the current wake-up of the event loop is done.
        background: see `Background`.
        is_needed: False for a directory that goes with its broker, which nothing is forced to disk for.
    """

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], background: "Background", *, is_needed: bool
    ) -> None:
        self._call_soon = call_soon
        self._background = background
        self._is_needed = is_needed
        self._files: list[MetadataFile] = []
        self._waiting: list[Callable[[], None]] = []
        self._is_running = False

    def file(self, path: str, *, mode: int = 0o644) -> MetadataFile:
        """A file that is forced to disk soon after each change."""
        file = MetadataFile(path, mode=mode, is_durable=self._is_needed, on_write=lambda: self._call_soon(self._begin))
        self._files.append(file)
        return file

    @property
    def is_behind(self) -> bool:
        """Whether there are changes that are not on disk."""
        return any(file.is_behind for file in self._files)

    def hold(self, response: _T) -> "_T | Parked":
        """Hold a response back until all changes are on disk; itself if they are."""
        if not self._is_needed or not self.is_behind:
            return response
        from minibroker.held_answer import HeldAnswer  # noqa: PLC0415 - it needs the state, which needs this

        held = HeldAnswer(response)
        self._waiting.append(held.release)
        self._begin()
        if not any(file.is_behind for file in self._files):  # the thread was quick
            held.cancel()
            return response
        return held

    def sync(self) -> None:
        """Force all changes to disk and wait for it. An error is logged."""
        for file in self._files:
            if file.is_behind:
                _sync(file)

    def _begin(self) -> None:
        if self._is_running or not (self._waiting or self.is_behind):
            return
        self._is_running = True
        waiting, self._waiting = self._waiting, []
        self._background(self.sync, lambda: self._end(waiting))

    def _end(self, waiting: list[Callable[[], None]]) -> None:
        self._is_running = False
        if self._waiting:
            self._begin()
        for release in waiting:
            release()


def _sync(file: MetadataFile) -> None:
    try:
        file.sync()
    except OSError as error:
        _logger.error("%s cannot be forced to disk: %s", file.path, error)  # noqa: TRY400 - the disk's fault, not ours
