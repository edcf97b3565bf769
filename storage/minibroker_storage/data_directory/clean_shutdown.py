"""The file `.kafka_cleanshutdown`, which marks that all logs of the data directory were closed.

The file exists only while no broker is running (Kafka's `CleanShutdownFileHandler`). Before a process writes to logs,
it removes the file and syncs the directory. Otherwise a machine crash could bring the file back beside a torn log. If
the file is missing, `boot_id` distinguishes a process crash from a machine crash.
"""

import os
import sys
from enum import Enum
from typing import Final

from minibroker_storage.data_directory.names import CLEAN_SHUTDOWN
from minibroker_storage.files import fsync_directory, write_atomically

_TEXT: Final = b'{"version":0,"brokerEpoch":-1}'


class LastStop(Enum):
    """The way a log was last closed. This determines which of its files can be trusted."""

    CLEAN = "clean"
    """The log was closed, and all of its files are complete."""
    KILLED = "killed"
    """The process died but the machine kept running: everything before the last write is complete."""
    CRASHED = "crashed"
    """The machine died: only flushed data below the recovery point is complete. Also used for an unknown stop."""


def is_marked_clean(data_dir: str) -> bool:
    """Return whether the clean shutdown file exists."""
    return os.path.exists(f"{data_dir}/{CLEAN_SHUTDOWN}")


def mark_clean(data_dir: str) -> None:
    """Write and sync the clean shutdown file.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(f"{data_dir}/{CLEAN_SHUTDOWN}", _TEXT, sync=True)


def unmark_clean(data_dir: str) -> None:
    """Remove the clean shutdown file if it exists, and sync the directory.

    Raises:
        OSError: the file cannot be removed.
    """
    if is_marked_clean(data_dir):
        os.unlink(f"{data_dir}/{CLEAN_SHUTDOWN}")
        fsync_directory(data_dir)


MAX_BOOT_ID: Final = 256
"""Maximum length of a boot id in bytes."""


def boot_id() -> str | None:
    """Return the id of the machine's current boot, or None if the system provides none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return _read_sysctl(b"kern.bootsessionuuid") if sys.platform == "darwin" else None


def _read_sysctl(name: bytes) -> str | None:
    import ctypes  # noqa: PLC0415 - macOS only

    text = ctypes.create_string_buffer(MAX_BOOT_ID)
    size = ctypes.c_size_t(MAX_BOOT_ID)
    failed = ctypes.CDLL(None).sysctlbyname(name, text, ctypes.byref(size), None, ctypes.c_size_t(0))
    return None if failed else text.value.decode(errors="replace").strip() or None
