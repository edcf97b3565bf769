"""A file of metadata that is replaced as a whole, and outlasts a crash of the machine.

Each change puts a new generation in the place of the file; `sync` forces it to disk, aside from the event loop. Until
that is done a crash of the machine may leave the file empty or cut off. So the last generation that is on disk stays
beside it as `<name>.bak`, and is read where the file is torn.
"""

import contextlib
import json
import logging
import os
from collections.abc import Callable
from typing import TypeVar

from minibroker_storage.checkpoints import fsync_directory, read_file, write_atomically
from minibroker_storage.data_directory.names import BACKUP_SUFFIX

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
        self._synced = 0  # nobody knows of the generation that an earlier run has left
        self._has_backup = False

    @property
    def is_behind(self) -> bool:
        """Whether there is a generation of this run that is not on disk."""
        return self._is_durable and self._synced < self._written and self._written > 1

    def read(self, parse: Callable[[bytes], _T]) -> _T | None:
        """The parsed content, None without a file. ValueError of `parse`, OSError.

        The generation before, with a warning, where the file is torn. Other damage is left to those who have done it.
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
        """Replace the file, with `sync` down to the disk. OSError, and the old one stays."""
        if not self._is_durable:
            write_atomically(self.path, data, mode=self._mode)
            return
        # The first generation, and one on a file system without links, has nothing to fall back on.
        sync = sync or not self._keep_backup()
        write_atomically(self.path, data, sync=sync, mode=self._mode)
        self._written += 1
        if sync:
            self._synced = self._written
            self.was_torn = False  # the file is the better generation again: the next backup
        self._on_write()

    def _keep_backup(self) -> bool:
        """Link the generation that is on disk as the backup; whether there is one."""
        if self.was_torn:
            return True  # the backup is better than the file
        if self._synced < self._written and self._written > 1:
            return self._has_backup
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
        """Force the file and its name to disk, in any thread. OSError."""
        written = self._written
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        fsync_directory(os.path.dirname(self.path))
        self._synced = max(self._synced, written)
        self.was_torn = self.was_torn and written == 1

    def remove(self) -> None:
        """Remove the file and its backup. OSError."""
        for path in (self.path + BACKUP_SUFFIX, self.path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


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
