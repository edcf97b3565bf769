"""Many files of a data directory changed as one: by a broker, or by a program that writes logs while it is stopped.

Everything is made ready in a directory of its own within the data directory: what is to come under `new`, by the names
that it will have, and a list of the steps. That directory then gets the name `UNFINISHED`. With this one rename all has
happened: from then on the steps are only carried out, by the writer or, if that was killed, by the next owner of the
data directory, as often as it takes. Kafka refuses to start beside a directory of such a name; this broker finishes.

Until then the directory has the name of a deleted partition, so that a broker removes what a killed writer has left.
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
from minibroker_storage.layout import delete_directory_name, purge, rename_if_there

UNFINISHED: Final = "minibroker-unfinished-write"
STAGING_PREFIX: Final = "minibroker-write-0."
STEPS: Final = "steps.json"
NEW: Final = "new"
_OLD: Final = "old"
_VERSION: Final = 1


class StagedWriteError(StorageError, ValueError):
    """The steps of an unfinished write cannot be read, or something is in their way. Names the directory."""


@dataclass(frozen=True, kw_only=True)
class StagedWrite:
    """Directories that go, then directories and files that come. Names are relative to the data directory.

    `set_aside`: directories to take away. `directories`: new ones, none of which is there by then. `files`: new ones,
    each of which takes the place of one of that name; what others point to last.
    """

    set_aside: Sequence[str] = ()
    directories: Sequence[str] = ()
    files: Sequence[str] = ()


def staging_name(data_dir: str) -> str:
    """A new path in the data directory, for what is being made ready."""
    return delete_directory_name(f"{data_dir}/{STAGING_PREFIX[:-1]}")


def _purge_if_possible(directory: str) -> None:
    with contextlib.suppress(OSError):  # a broker removes it, like any deleted partition
        purge(directory)


def publish(
    data_dir: str,
    staging: str,
    write: StagedWrite,
    *,
    sync: bool = True,
    remove: Callable[[str], object] = _purge_if_possible,
) -> None:
    """Carry out the steps with what is under `staging`/new, all of it on disk already. The caller holds the locks.

    All or nothing, after `finish`. `staging` is gone afterwards. `OSError` before anything has
    happened, unless `UNFINISHED` is there by then.

    With `sync` the change outlasts a crash of the machine. `remove` gets the directory that is left, with all that was
    set aside.
    """
    finish(data_dir)
    data = json.dumps({"version": _VERSION, **asdict(write)}).encode()
    write_atomically(f"{staging}/{STEPS}", data, sync=sync)
    os.rename(staging, f"{data_dir}/{UNFINISHED}")
    if sync:
        fsync_directory(data_dir)
    finish(data_dir, sync=sync, remove=remove)


def undo(data_dir: str) -> None:
    """Take back an unfinished write of which a step has failed: everything is as it was before `publish`.

    Only for a write that sets aside every file that it replaces. `StagedWriteError`, `OSError`; a later `finish`
    carries the write out all the same.
    """
    unfinished = f"{data_dir}/{UNFINISHED}"
    if not os.path.isdir(unfinished):
        return
    write = _read(unfinished)
    for name in (*write.directories, *write.files):
        if not os.path.lexists(f"{unfinished}/{NEW}/{name}"):
            os.rename(f"{data_dir}/{name}", f"{unfinished}/{NEW}/{name}")
    for name in write.set_aside:
        rename_if_there(f"{unfinished}/{_OLD}/{name}", f"{data_dir}/{name}")
    os.rename(unfinished, staging_name(data_dir))


def finish(data_dir: str, *, sync: bool = True, remove: Callable[[str], object] = _purge_if_possible) -> bool:
    """Finish what a killed writer has begun, if there is such a thing; says so. The caller holds the locks.

    `StagedWriteError`, `OSError`: what is not done yet is done by the next call.
    """
    unfinished = f"{data_dir}/{UNFINISHED}"
    if not os.path.isdir(unfinished):
        return False
    write = _read(unfinished)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{data_dir}/{SNAPSHOT_FILE}")  # the directory is no longer what the snapshot was
    _set_aside(data_dir, unfinished, write)
    for name in write.directories:
        if os.path.exists(f"{unfinished}/{NEW}/{name}"):
            os.rename(f"{unfinished}/{NEW}/{name}", f"{data_dir}/{name}")
    for name in write.files:
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{unfinished}/{NEW}/{name}", f"{data_dir}/{name}")
    for directory in sorted({os.path.dirname(name) for name in write.files} | {""}) if sync else ():
        fsync_directory(f"{data_dir}/{directory}")
    done = staging_name(data_dir)
    os.rename(unfinished, done)
    with contextlib.suppress(OSError):  # a crash of the machine may bring `unfinished` back: it has to be whole then
        if sync:
            fsync_directory(data_dir)
        remove(done)
    return True


def _read(unfinished: str) -> StagedWrite:
    try:
        found = json.loads(read_file(f"{unfinished}/{STEPS}"))
        if found.pop("version") != _VERSION:
            raise StagedWriteError(f"{unfinished}: of a newer version; finish it with that one")
        return StagedWrite(**found)
    except (ValueError, TypeError, KeyError, AttributeError, FileNotFoundError) as error:
        raise StagedWriteError(f"{unfinished}: {STEPS} cannot be read: {error}") from None


def _set_aside(data_dir: str, unfinished: str, write: StagedWrite) -> None:
    if write.set_aside:
        os.makedirs(f"{unfinished}/{_OLD}", exist_ok=True)
    for name in write.set_aside:
        # What is there under the name, once the old one is away, is the new one.
        if not os.path.lexists(f"{unfinished}/{_OLD}/{name}"):
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{data_dir}/{name}", f"{unfinished}/{_OLD}/{name}")
