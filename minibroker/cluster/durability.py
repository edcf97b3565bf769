"""Durability of metadata: changes are on disk before their responses leave.

The fsyncs run on a thread, one round at a time: changes made during a round wait for the next one. When a round fails,
all requests that wait for it are refused with KAFKA_STORAGE_ERROR, and so are all later ones until a round succeeds.
A Kafka halts in that case: its controller when it cannot write the metadata log, a broker when its last log directory
fails (`ProcessTerminatingFaultHandler`, `LogManager.handleLogDirFailure`). This broker may share its process with a
program, so it goes on. The next round writes the files again, with all changes: also with those that were refused.
"""

import logging
from collections.abc import Callable
from typing import Any

from minibroker.cluster.metadata_file import MetadataFile

Background = Callable[..., Any]
"""Runs its first argument on a thread, then its second one, if given, on the event loop.

For work that would hold up the event loop and cannot be cut into slices, such as an fsync. It handles its own errors.
"""
IsDurable = bool
_logger = logging.getLogger(__name__)


class Durability:
    """The metadata files of one data directory.

    Args:
        call_soon: runs a callback once the current wake-up of the event loop is done.
        background: see `Background`.
        is_needed: False for a directory that goes with its broker, which nothing is forced to disk for.

    Attributes:
        is_needed: as given.
    """

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], background: Background, *, is_needed: bool
    ) -> None:
        self._call_soon = call_soon
        self._background = background
        self.is_needed = is_needed
        self._files: list[MetadataFile] = []
        self._waiting: list[Callable[[IsDurable], None]] = []
        self._is_running = False
        self._has_failed = False

    def file(self, path: str, *, mode: int = 0o644) -> MetadataFile:
        """A file that is forced to disk soon after each change."""
        file = MetadataFile(path, mode=mode, is_durable=self.is_needed, on_write=lambda: self._call_soon(self._begin))
        self._files.append(file)
        return file

    @property
    def is_behind(self) -> bool:
        """Whether there are changes that are not on disk."""
        return any(file.is_behind for file in self._files)

    def wait(self, then: Callable[[IsDurable], None]) -> IsDurable:
        """Have `then` called on the event loop after a round of fsyncs that covers all changes made so far.

        It gets whether all of them are on disk. Returns the same for now: a thread may be quick.
        """
        self._waiting.append(then)
        self._begin()
        return not self.is_behind

    def sync(self) -> IsDurable:
        """Force all changes to disk and wait for it; whether they are. The first error is logged."""
        return self._force(self._renew())

    def _renew(self) -> OSError | None:
        """Replace the files whose fsync has failed; on the event loop, as all writing is."""
        for file in self._files:
            try:
                file.renew()
            except OSError as error:
                return error
        return None

    def _force(self, error: OSError | None) -> IsDurable:
        """Sync all files, in any thread, unless an `error` has kept one of them from being written."""
        for file in self._files:
            if error is None and file.is_behind:
                try:
                    file.sync()
                except OSError as failure:
                    error = failure
                    error.filename = error.filename or file.path
        self._note(error)
        return error is None

    def _note(self, error: OSError | None) -> None:
        """Log that the disk has failed, or works again; once for each time that this changes."""
        if error is not None and not self._has_failed:
            _logger.error(
                "%s cannot be forced to disk: [Errno %s] %s; requests that change metadata are answered "
                "KAFKA_STORAGE_ERROR until it can",
                error.filename,
                error.errno,
                error.strerror,
            )
        elif error is None and self._has_failed:
            _logger.warning("All metadata is on disk again")
        self._has_failed = error is not None

    def _begin(self) -> None:
        if self._is_running or not (self._waiting or self.is_behind):
            return
        self._is_running = True
        waiting, self._waiting = self._waiting, []
        unwritten = self._renew()
        outcome: list[IsDurable] = []
        self._background(lambda: outcome.append(self._force(unwritten)), lambda: self._end(waiting, outcome))

    def _end(self, waiting: list[Callable[[IsDurable], None]], outcome: list[IsDurable]) -> None:
        self._is_running = False
        for file in self._files:
            file.settle()
        if self._waiting:
            self._begin()
        for then in waiting:
            then(all(outcome))
