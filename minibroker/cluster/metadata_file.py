"""A metadata file that is replaced as a whole and survives a crash of the machine.

Each change replaces the file with a new generation. `sync` forces the file to disk, off the event loop. Before that, a
crash of the machine may leave the file empty or truncated. The last generation on disk is therefore kept as
`<name>.bak`, which is read if the file is torn.

After a failed fsync Linux may drop the dirty pages and report success for the next fsync of the same inode. An inode
whose fsync failed is therefore never synced again: `renew` writes its bytes to a new file.
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
    """One metadata file.

    Args:
        path: The path of the file.
        mode: The access permissions of the file.
        is_durable: Whether the file must survive a crash of the machine. A file in a temporary directory need not
            survive, and has no backup.
        on_write: Called after each write.

    Attributes:
        was_torn: Whether `read` fell back to the backup.
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
        self._synced = 0  # The file left by an earlier run may not be on disk yet.
        self._has_backup = False
        self._content: bytes | None = None  # What this run has written last.
        self._is_suspect = False  # Whether an fsync of the file has failed.

    @property
    def is_behind(self) -> bool:
        """Whether a generation of this run is not on disk yet."""
        return self._is_durable and self._synced < self._written and self._written > 1

    def read(self, parse: Callable[[bytes], _T]) -> _T | None:
        """Return the parsed content, or None if the file does not exist.

        If the file is torn, the backup is read, with a warning. Other damage is not repaired.

        Raises:
            ValueError: `parse` failed.
            OSError: The file cannot be read.
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
            parsed = parse(read_file(backup))
            _logger.warning("%s; going on with the generation before, from %s", error, backup)
            self.was_torn = True
            return parsed

    def write(self, data: bytes, *, sync: bool = False) -> None:
        """Replace the file. `sync` forces the new one to disk.

        Raises:
            OSError: The old file is still in place. With `sync` the new file may already have replaced it, but is
                not durable.
        """
        if not self._is_durable:
            write_atomically(self.path, data, mode=self._mode)
            self._on_write()
            return
        # Without a backup the file must be forced to disk: the first generation, and every generation on a file system
        # without hard links.
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
                return  # The next sync will fail and report the error.
            self._synced = self._written
            self.was_torn = False  # The file is valid again, so it can become the next backup.

    def _replace(self, data: bytes, *, sync: bool = False) -> None:
        """Replace the file with a new inode.

        Raises:
            OSError: The replacement failed, and the old file is still in place.
        """
        # Reset the flag first, because a failed fsync of the new inode sets it again.
        was_suspect, self._is_suspect = self._is_suspect, False
        try:
            replace_file(self.path, data, sync=sync, mode=self._mode)
        except OSError:
            self._is_suspect |= was_suspect
            raise
        self._content = data
        self._written += 1

    def _keep_backup(self) -> bool:
        """Link the generation on disk as the backup, and return whether there is a backup now."""
        if self.was_torn:
            return True  # Keep the old backup, because the file itself is torn.
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
        """Force the file and its directory entry to disk, on any thread.

        Raises:
            OSError: The fsync failed. Later calls fail, too, until `renew` is called.
        """
        if self._is_suspect:
            raise OSError(errno.EIO, "an earlier fsync has failed", self.path)
        written = self._written
        try:
            fsync_directory(self.path)
            fsync_directory(os.path.dirname(self.path))
        except OSError:
            self._is_suspect = True
            raise
        self._synced = max(self._synced, written)
        self.was_torn = self.was_torn and written == 1

    def renew(self) -> None:
        """If the file's fsync failed, replace the file with a new one that contains the same bytes.

        Raises:
            OSError: The new file cannot be written.
        """
        if self._is_suspect and self._content is not None:
            self._replace(self._content)

    def reset(self) -> None:
        """Reset the state after another writer replaced the file. The new file counts as synced and has no backup."""
        self._written += 1
        self._synced = self._written
        self._content = None
        self._has_backup = self._is_suspect = self.was_torn = False


def _is_torn(data: bytes) -> bool:
    """Return whether this can be the remainder of a JSON object after a crash: nothing, zeros, or its beginning."""
    if b"\0" in data or not data.rstrip().endswith(b"}"):
        return True
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        # An error at the end of the text means that the end of the object is missing.
        return error.pos >= len(error.doc.rstrip())
    except ValueError:
        return False
    return False
