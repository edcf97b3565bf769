"""Flushing a log to disk without blocking its owner."""

from minibroker_storage.portability import os


class LogFlush:
    """One flush of a log: `Log.begin_flush` and `finish` run on the owner's thread, and `run` can run on any thread.

    Each segment's log is synced before its indexes. The directory is synced last, when all names exist. `finish`
    advances the recovery point only after everything was synced, because recovery trusts everything below it.

    Files are opened by name, one at a time, so a flush of many segments needs only one descriptor. A file that no
    longer exists was deleted, or replaced by one that was already synced.
    """

    __slots__ = ("_durability", "_end_offset", "_error", "_has_failed", "_paths", "_truncations", "directory")

    def __init__(self, durability: "Durability", directory: str, paths: list[str], end_offset: int) -> None:
        self._durability = durability
        self._error = durability.error
        self._truncations = durability.truncations
        self._paths = paths
        #: The offset up to which the log will be durable.
        self._end_offset = end_offset
        self._has_failed = False
        #: Directory of the log.
        self.directory = directory

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
                self._has_failed = True
                raise
            finally:
                os.close(fd)

    def finish(self, error: OSError | None = None) -> None:
        """Report the result of `run` to the log, on its owner's thread.

        Unless there is an error, the recovery point advances.
        """
        durability = self._durability
        if error is not None:
            durability.names_changed = True
            # Keep the first error. Linux reports it only once and then marks the pages as clean, so a repeated fsync
            # would succeed although the data is lost.
            if self._has_failed and durability.error is None:
                durability.error = error
            return
        durability.is_new = False
        # After a truncation, the same offsets belong to other records, which this flush did not sync.
        if self._truncations == durability.truncations:
            durability.recovery_point = max(durability.recovery_point, self._end_offset)


class Durability:
    """Tracks which part of a log is on disk."""

    __slots__ = ("error", "is_new", "names_changed", "recovery_point", "truncations")

    def __init__(self, recovery_point: int, log_end_offset: int) -> None:
        #: Everything below this offset is on disk and survives a machine crash.
        self.recovery_point = min(recovery_point, log_end_offset)
        #: Whether files were created, removed or renamed since the last flush.
        #: After a crash, the names of files above the recovery point might not be on disk either.
        self.names_changed = self.recovery_point < log_end_offset
        #: Whether the log's directory was created since the last flush. If so, its parent directory must be synced too.
        self.is_new = False
        self.truncations = 0
        #: The error of the first fsync that failed. All later flushes fail too.
        self.error: OSError | None = None

    def truncate(self, offset: int) -> None:
        """Record that the log was truncated to `offset`. A flush in progress will not advance the recovery point."""
        self.recovery_point = min(self.recovery_point, offset)
        self.truncations += 1
        self.names_changed = True
