"""Durability of metadata: changes reach the disk before their responses are sent.

The fsyncs run on a thread, one round at a time. Changes made during a round wait for the next one. If a round fails,
all requests waiting for it fail with KAFKA_STORAGE_ERROR, and so do later requests until a round succeeds. Kafka halts
in that case: the controller if it cannot write the metadata log, a broker if its last log directory fails
(`ProcessTerminatingFaultHandler`, `LogManager.handleLogDirFailure`). This broker keeps running, since it may share its
process with another program. The next round writes the files again with all changes, including those whose requests
failed.
"""

import logging
from collections.abc import Callable
from typing import Any

from minibroker.cluster.metadata_file import MetadataFile

Background = Callable[..., Any]
"""Runs its first argument on a thread, then its optional second argument on the event loop.

It is used for work that would block the event loop and cannot be split into slices, such as an fsync. The work handles
its own errors.
"""
IsDurable = bool
_logger = logging.getLogger(__name__)


class Durability:
    """The metadata files of one data directory.

    Args:
        call_soon: Runs a callback once the current wake-up of the event loop has ended.
        background: See `Background`.
        is_needed: Whether files are forced to disk. False for a directory that is removed when its broker stops.

    Attributes:
        is_needed: The argument of this name.
        on_write: Called after each write of a file.
    """

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], background: Background, *, is_needed: bool
    ) -> None:
        self._call_soon = call_soon
        self._background = background
        self.is_needed = is_needed
        self.on_write: Callable[[], None] = lambda: None
        self._files: list[MetadataFile] = []
        self._waiting: list[Callable[[IsDurable], None]] = []
        self._is_running = False
        self._has_failed = False

    def file(self, path: str, *, mode: int = 0o644) -> MetadataFile:
        """Return a metadata file that is forced to disk soon after each change."""
        file = MetadataFile(path, mode=mode, is_durable=self.is_needed, on_write=self._on_write)
        self._files.append(file)
        return file

    def _on_write(self) -> None:
        self._call_soon(self._begin_round)
        self.on_write()

    @property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return [file.path for file in self._files]

    @property
    def is_behind(self) -> bool:
        """Whether some changes are not on disk yet."""
        return any(file.is_behind for file in self._files)

    def wait(self, then: Callable[[IsDurable], None]) -> IsDurable:
        """Call `then` on the event loop after a round of fsyncs that covers all changes made so far.

        `then` gets True if all these changes are on disk, else False.

        Returns:
            Whether all these changes are on disk already. The thread can finish before this method returns.
        """
        self._waiting.append(then)
        self._begin_round()
        return not self.is_behind

    def sync(self) -> IsDurable:
        """Force all changes to disk, wait for that, and return whether it succeeded. The first error is logged."""
        return self._force(self._renew())

    def _renew(self) -> OSError | None:
        """Replace the files whose fsync failed. Like all writing, this happens on the event loop."""
        for file in self._files:
            try:
                file.renew()
            except OSError as error:
                return error
        return None

    def _force(self, error: OSError | None) -> IsDurable:
        """Sync all files, on any thread, unless an earlier `error` prevented one of them from being written."""
        for file in self._files:
            if error is None and file.is_behind:
                try:
                    file.sync()
                except OSError as failure:
                    error = failure
                    error.filename = error.filename or file.path
        self._log_disk_state(error)
        return error is None

    def _log_disk_state(self, error: OSError | None) -> None:
        """Log an error when the disk starts to fail, and a warning when it works again."""
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

    def _begin_round(self) -> None:
        if self._is_running or not (self._waiting or self.is_behind):
            return
        self._is_running = True
        waiting, self._waiting = self._waiting, []
        renew_error = self._renew()
        results: list[IsDurable] = []
        self._background(lambda: results.append(self._force(renew_error)), lambda: self._end_round(waiting, results))

    def _end_round(self, waiting: list[Callable[[IsDurable], None]], results: list[IsDurable]) -> None:
        self._is_running = False
        if self._waiting:
            self._begin_round()
        for then in waiting:
            then(all(results))
