"""Flushing a log to disk without blocking its owner."""

import os
from collections.abc import Callable
from typing import Final

FlushEnd = Callable[["LogFlush", OSError | None], None]


class LogFlush:
    """One flush of a log: `Log.begin_flush` and `finish` run on the owner's thread, and `run` can run on any thread.

    Each segment's log is synced before its indexes. The directory is synced last, when all names exist. `finish`
    advances the recovery point only after everything was synced, because recovery trusts everything below it.

    Files are opened by name. A file that no longer exists was deleted, or replaced by one that was already synced.
    A flush of many segments therefore keeps no files open.
    """

    __slots__ = ("_error", "_on_end", "_paths", "directory", "end_offset", "failed", "truncations")

    def __init__(
        self,
        directory: str,
        paths: list[str],
        end_offset: int,
        truncations: int,
        error: OSError | None,
        on_end: FlushEnd,
    ) -> None:
        self._paths = paths
        self._error = error
        self._on_end = on_end
        #: Directory of the log.
        self.directory = directory
        #: The offset up to which the log will be durable.
        self.end_offset: Final = end_offset
        self.truncations: Final = truncations
        #: Whether an fsync failed.
        self.failed = False

    def run(self) -> None:
        """Sync all files. This method can run in any thread because it does not access the log object.

        After a failed fsync, the kernel may drop the unwritten pages and report no further errors about them. All later
        flushes of the log therefore fail too, until the log is reopened.

        Raises:
            OSError: an fsync failed, now or in an earlier flush.
        """
        if self._error is not None:
            raise OSError(self._error.errno, f"an earlier flush failed: {self._error.strerror}", self.directory)
        for path in self._paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            # Retention or cleaning may remove the file while the flush runs.
            except FileNotFoundError:
                continue
            try:
                os.fsync(fd)
            except OSError:
                self.failed = True
                raise
            finally:
                os.close(fd)

    def finish(self, error: OSError | None = None) -> None:
        """Report the result of `run` to the log, on its owner's thread.

        Unless there is an error, the recovery point advances.
        """
        self._on_end(self, error)


class Durability:
    """Tracks which part of a log is on disk."""

    __slots__ = ("_error", "_is_new", "_truncations", "names_changed", "recovery_point")

    def __init__(self, recovery_point: int, log_end_offset: int) -> None:
        #: Everything below this offset is on disk and survives a machine crash.
        self.recovery_point = min(recovery_point, log_end_offset)
        #: Whether files were created, removed or renamed since the last flush.
        #: After a crash, the names of files above the recovery point might not be on disk either.
        self.names_changed = self.recovery_point < log_end_offset
        self._is_new = False
        self._truncations = 0
        self._error: OSError | None = None

    def truncate(self, offset: int) -> None:
        """Record that the log was truncated to `offset`. A flush in progress will not advance the recovery point."""
        self.recovery_point = min(self.recovery_point, offset)
        self._truncations += 1
        self.names_changed = True

    def mark_directory_created(self) -> None:
        """Record that the log's directory was created, so its own name must be synced as well."""
        self._is_new = self.names_changed = True

    def begin(self, directory: str, paths: list[str], log_end_offset: int) -> LogFlush:
        """Create a flush of `paths`.

        It includes the directory if names in it changed and, if the directory is new, its parent.
        """
        if self.names_changed:
            paths = [*paths, directory, os.path.dirname(directory)] if self._is_new else [*paths, directory]
            self.names_changed = False
        return LogFlush(directory, paths, log_end_offset, self._truncations, self._error, self._end)

    def _end(self, flush: LogFlush, error: OSError | None) -> None:
        if error is not None:
            self.names_changed = True
            # Keep the first error. Linux reports it only once and then marks the pages as clean, so a repeated fsync
            # would succeed although the data is lost.
            if flush.failed and self._error is None:
                self._error = error
            return
        self._is_new = False
        # After a truncation, the same offsets belong to other records, which this flush did not sync.
        if flush.truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, flush.end_offset)
