"""Atomic changes to several files in a data directory, made by a broker or, while it is stopped, by another program.

The change is prepared in a staging directory inside the data directory. The staging directory contains a list of steps
and, under `new`, the new files with their final names. Renaming the staging directory to `UNFINISHED` commits the
change. After the commit, the change must be completed: by the writer or, if the writer was killed, by the next owner of
the data directory. Steps can be repeated if needed. Kafka refuses to start with such a directory present; this broker
finishes the change.

Before the commit, the staging directory is named like a deleted partition, so a broker removes what a killed writer
has left.
"""

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from minibroker_storage.data_directory.names import SNAPSHOT_FILE
from minibroker_storage.errors import StorageError
from minibroker_storage.files import fsync_directory, read_file, write_atomically
from minibroker_storage.layout import delete_directory_name, purge, rename_if_exists

UNFINISHED: Final = "minibroker-unfinished-write"
STAGING_PREFIX: Final = "minibroker-write-0."
STEPS: Final = "steps.json"
NEW: Final = "new"
_OLD: Final = "old"
_VERSION: Final = 1


class StagedWriteError(StorageError, ValueError):
    """The steps of an unfinished change cannot be read or carried out. The message names the directory."""


@dataclass(frozen=True, kw_only=True)
class StagedWrite:
    """The directories and files that a change removes or creates, by their names relative to the data directory.

    Attributes:
        set_aside: existing directories to remove.
        directories: new directories. They must not exist after those in `set_aside` are removed.
        files: new files, each of which replaces any file of the same name. A file that refers to others comes last.
    """

    set_aside: Sequence[str] = ()
    directories: Sequence[str] = ()
    files: Sequence[str] = ()


def staging_name(data_dir: str) -> str:
    """Return a new path for a staging directory in the data directory."""
    return delete_directory_name(f"{data_dir}/{STAGING_PREFIX[:-1]}")


def _purge_if_possible(directory: str) -> None:
    # If this fails, a broker removes the directory later, like that of any deleted partition.
    with contextlib.suppress(OSError):
        purge(directory)


def publish(
    data_dir: str,
    staging: str,
    write: StagedWrite,
    *,
    sync: bool = True,
    remove: Callable[[str], object] = _purge_if_possible,
) -> None:
    """Commit a staged change and carry it out.

    The change happens completely or not at all. An earlier unfinished change is finished first. The caller must
    hold the locks, and everything under `staging`/new must already be on disk. The staging directory is gone
    afterwards.

    Args:
        data_dir: the data directory.
        staging: the staging directory, named by `staging_name`.
        write: the steps of the change.
        sync: whether the change must survive a crash of the machine.
        remove: called with the directory of leftovers, which contains everything that was set aside.

    Raises:
        OSError: the change failed. If `UNFINISHED` exists, it was committed; otherwise nothing has changed.
    """
    finish(data_dir)
    data = json.dumps({"version": _VERSION, **asdict(write)}).encode()
    write_atomically(f"{staging}/{STEPS}", data, sync=sync)
    os.rename(staging, f"{data_dir}/{UNFINISHED}")
    if sync:
        fsync_directory(data_dir)
    finish(data_dir, sync=sync, remove=remove)


def undo(data_dir: str) -> None:
    """Roll back an unfinished change after one of its steps failed, restoring the state before `publish`.

    This works only for a change that sets aside every file it replaces.

    Raises:
        StagedWriteError: the steps cannot be read.
        OSError: a step cannot be undone. A later `finish` still carries out the change.
    """
    unfinished = f"{data_dir}/{UNFINISHED}"
    if not os.path.isdir(unfinished):
        return
    write = _read_steps(unfinished)
    for name in (*write.directories, *write.files):
        if not os.path.lexists(f"{unfinished}/{NEW}/{name}"):
            os.rename(f"{data_dir}/{name}", f"{unfinished}/{NEW}/{name}")
    for name in write.set_aside:
        rename_if_exists(f"{unfinished}/{_OLD}/{name}", f"{data_dir}/{name}")
    os.rename(unfinished, staging_name(data_dir))


def finish(data_dir: str, *, sync: bool = True, remove: Callable[[str], object] = _purge_if_possible) -> bool:
    """Finish the change left by a killed writer, and return whether there was one. The caller must hold the locks.

    Raises:
        StagedWriteError: the steps cannot be read.
        OSError: a step failed. The next call continues with that step.
    """
    unfinished = f"{data_dir}/{UNFINISHED}"
    if not os.path.isdir(unfinished):
        return False
    write = _read_steps(unfinished)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{data_dir}/{SNAPSHOT_FILE}")  # The snapshot no longer describes this directory.
    _set_aside(data_dir, unfinished, write)
    for name in write.directories:
        if os.path.exists(f"{unfinished}/{NEW}/{name}"):
            os.rename(f"{unfinished}/{NEW}/{name}", f"{data_dir}/{name}")
    for name in write.files:
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{unfinished}/{NEW}/{name}", f"{data_dir}/{name}")
    for directory in sorted({os.path.dirname(name) for name in write.files} | {""}) if sync else ():
        fsync_directory(f"{data_dir}/{directory}")
    leftovers = staging_name(data_dir)
    os.rename(unfinished, leftovers)
    # Sync the rename before removing files: after a machine crash, `unfinished` could reappear, and must then be
    # complete.
    with contextlib.suppress(OSError):
        if sync:
            fsync_directory(data_dir)
        remove(leftovers)
    return True


def _read_steps(unfinished: str) -> StagedWrite:
    try:
        content = json.loads(read_file(f"{unfinished}/{STEPS}"))
        if content.pop("version") != _VERSION:
            raise StagedWriteError(f"{unfinished}: of a newer version; finish it with that one")
        return StagedWrite(**content)
    except (ValueError, TypeError, KeyError, AttributeError, FileNotFoundError) as error:
        raise StagedWriteError(f"{unfinished}: {STEPS} cannot be read: {error}") from None


def _set_aside(data_dir: str, unfinished: str, write: StagedWrite) -> None:
    if write.set_aside:
        os.makedirs(f"{unfinished}/{_OLD}", exist_ok=True)
    for name in write.set_aside:
        # If an interrupted call has already set the old directory aside, the directory with this name is the new one.
        if not os.path.lexists(f"{unfinished}/{_OLD}/{name}"):
            rename_if_exists(f"{data_dir}/{name}", f"{unfinished}/{_OLD}/{name}")
