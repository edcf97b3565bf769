"""A file of metadata that is replaced as a whole, and outlasts a crash of the machine.

Each change puts a new generation in the place of the file; `sync` forces it to disk, aside from the event loop. Until
that is done a crash of the machine may leave the file empty or cut off. So the last generation that is on disk stays
beside it as `<name>.bak`, and is read where the file is torn.

After a failed fsync Linux may drop the pages that it could not write and report the next fsync of the same inode as
successful. So an inode whose fsync has failed is never synced again: `renew` writes its bytes into a new file.
"""

import contextlib
import errno
import json
import logging
import os
from collections.abc import Callable
from typing import TypeVar

from minibroker_storage.data_directory.names import BACKUP_SUFFIX
from minibroker_storage.files import fsync_directory, read_file, replace_file, write_atomically

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class MetadataFile:
    """One such file.

    Args:
        mode: who may read it.
        is_durable: whether it is to outlast the machine; a temporary directory's is not, and has no second generation.
        on_write: called behind each write of a durable file.

    Attributes:
        was_torn: `read` had to take the generation before.
    """

    def __init__(
        self, path: str, *, mode: int = 0o644, is_durable: bool = False, on_write: Callable[[], object] = lambda: None
    ) -> None:
        self.path = path
        self.was_torn = False
        self._mode = mode
        self._is_durable = is_durable
        self._on_write = on_write
        self._written = 1
        self._synced = 0  # the generation that an earlier run has left is unknown
        self._has_backup = False
        self._unsynced: bytes | None = None  # the bytes of the last generation, until it is on disk
        self._is_suspect = False  # an fsync of the file has failed

    @property
    def is_behind(self) -> bool:
        """Whether there is a generation of this run that is not on disk."""
        return self._is_durable and self._synced < self._written and self._written > 1

    def read(self, parse: Callable[[bytes], _T]) -> _T | None:
        """The parsed content, None without a file. ValueError of `parse`, OSError.

        The generation before, with a warning, where the file is torn. Other damage is not repaired.
        """
        try:
            data = read_file(self.path)
        except FileNotFoundError:
            return None
        try:
            return parse(data)
        except ValueError as error:
            backup = self.path + BACKUP_SUFFIX
            if not _is_torn(data) or not os.path.exists(backup):
                raise
            found = parse(read_file(backup))
            _logger.warning("%s; going on with the generation before, from %s", error, backup)
            self.was_torn = True
            return found

    def write(self, data: bytes, *, sync: bool = False) -> None:
        """Replace the file, with `sync` down to the disk. OSError.

        After an OSError the old file stays. With `sync` the new one may have its name already, but is not durable then.
        """
        if not self._is_durable:
            write_atomically(self.path, data, mode=self._mode)
            return
        # The first generation, and one on a file system without links, has nothing to fall back on.
        is_forced = sync or not self._keep_backup()
        self._replace(data, sync=is_forced)
        self._on_write()
        if is_forced:
            try:
                fsync_directory(os.path.dirname(self.path))
            except OSError:
                self._is_suspect = True
                if sync:
                    raise
                return  # as a generation that is synced later, and fails then
            self._synced = self._written
            self._unsynced = None
            self.was_torn = False  # the file is the better generation again: the next backup

    def _replace(self, data: bytes, *, sync: bool = False) -> None:
        """Put a new inode in the place of the file. OSError, and the old one stays."""
        was_suspect, self._is_suspect = self._is_suspect, False  # before the new inode can be synced, and fail
        try:
            replace_file(self.path, data, sync=sync, mode=self._mode)
        except OSError:
            self._is_suspect |= was_suspect
            raise
        self._unsynced = data
        self._written += 1

    def _keep_backup(self) -> bool:
        """Link the generation that is on disk as the backup; whether there is one."""
        if self.was_torn:
            return True  # the backup is better than the file
        if self._synced < self._written and self._written > 1:
            return self._has_backup
        if self._is_suspect:
            return False
        backup = self.path + BACKUP_SUFFIX
        try:
            if self._written == 1:
                self.sync()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(backup)
            os.link(self.path, backup)
        except OSError:
            self._has_backup = False
        else:
            self._has_backup = True
        return self._has_backup

    def sync(self) -> None:
        """Force the file and its name to disk, in any thread. OSError; then the next one fails, too, before `renew`."""
        if self._is_suspect:
            raise OSError(errno.EIO, "an earlier fsync has failed", self.path)
        written = self._written
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            fsync_directory(os.path.dirname(self.path))
        except OSError:
            self._is_suspect = True
            raise
        self._synced = max(self._synced, written)
        self.was_torn = self.was_torn and written == 1

    def renew(self) -> None:
        """Put a new file with the same bytes in the place of one whose fsync has failed, if there is one. OSError."""
        if self._is_suspect and self._unsynced is not None:
            self._replace(self._unsynced)

    def settle(self) -> None:
        """Forget the bytes of the last generation if it is on disk."""
        if not self.is_behind:
            self._unsynced = None

    def replaced(self) -> None:
        """Forget what was known of the file: another one is in its place, on disk and without a backup."""
        self._written += 1
        self._synced = self._written
        self._unsynced = None
        self._has_backup = self._is_suspect = self.was_torn = False


def _is_torn(data: bytes) -> bool:
    """Whether a crash of the machine can have left this of a JSON object: nothing, zeros, or its beginning."""
    if b"\0" in data or not data.rstrip().endswith(b"}"):
        return True
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.pos >= len(error.doc.rstrip())  # cut off behind one of its inner objects
    except ValueError:
        return False
    return False
