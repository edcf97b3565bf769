"""Bringing a log to disk without holding up its owner."""

import os
from collections.abc import Callable
from typing import Final

FlushEnd = Callable[["LogFlush", OSError | None], None]


class LogFlush:
    """One flush of a log, in three steps: `Log.begin_flush` and `finish` on the owner's thread, `run` on any.

    Crash rule: of each segment the log goes to disk before its indexes, and the directory last, so that all names are
    there. Only when all of it is, `finish` moves the recovery point, behind which recovery trusts nothing.

    The files are opened by name: one that is gone by now was deleted, or replaced by one that is on disk already. So
    nothing has to be kept open for the flush, however many segments it is about.
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
        #: The log's directory.
        self.directory = directory
        #: The offset up to which the log will be durable.
        self.end_offset: Final = end_offset
        self.truncations: Final = truncations
        #: Whether an fsync failed.
        self.failed = False

    def run(self) -> None:
        """Write all to disk (fsync). For any thread; touches nothing of the log itself. `OSError`.

        After a failed fsync the kernel may have dropped what it could not write, and says so only once: all later
        flushes of the log fail as well, until it is opened again.
        """
        if self._error is not None:
            raise OSError(self._error.errno, f"an earlier flush failed: {self._error.strerror}", self.directory)
        for path in self._paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            # Retention or a cleaning may remove it while the flush runs on its own thread.
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
        """Report to the log how `run` ended, on its owner's thread; None moves the recovery point."""
        self._on_end(self, error)


class Durability:
    """The state of a log on disk, up to its recovery point."""

    __slots__ = ("_error", "_is_new", "_truncations", "names_changed", "recovery_point")

    def __init__(self, recovery_point: int, log_end_offset: int) -> None:
        #: All below this offset is on disk and survives the death of the machine.
        self.recovery_point = min(recovery_point, log_end_offset)
        #: Whether files have come, gone or been renamed since the last flush.
        # After a crash the names of files behind the recovery point may not be on disk, either.
        self.names_changed = self.recovery_point < log_end_offset
        self._is_new = False
        self._truncations = 0
        self._error: OSError | None = None

    def truncate(self, offset: int) -> None:
        """The log was cut and ends at `offset` now: a flush that is under way does not count."""
        self.recovery_point = min(self.recovery_point, offset)
        self._truncations += 1
        self.names_changed = True

    def directory_made(self) -> None:
        """The directory itself is new: its name has to be on disk, too."""
        self._is_new = self.names_changed = True

    def begin(self, directory: str, paths: list[str], log_end_offset: int) -> LogFlush:
        """A flush of `paths`, of the directory if its names have changed, and of the one above if it is new."""
        if self.names_changed:
            paths = [*paths, directory, os.path.dirname(directory)] if self._is_new else [*paths, directory]
            self.names_changed = False
        return LogFlush(directory, paths, log_end_offset, self._truncations, self._error, self._end)

    def _end(self, flush: LogFlush, error: OSError | None) -> None:
        if error is not None:
            self.names_changed = True
            # The first error stays: Linux reports it once, and then marks the pages as clean.
            if flush.failed and self._error is None:
                self._error = error
            return
        self._is_new = False
        # Since a truncation other records have these offsets, and they were not among those that were flushed.
        if flush.truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, flush.end_offset)
