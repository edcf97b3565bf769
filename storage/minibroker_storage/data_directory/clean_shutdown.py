"""`.kafka_cleanshutdown`: every log of the data directory was closed well (Kafka's `CleanShutdownFileHandler`).

The file is there between two runs only. A writer of logs removes it first, on disk, or a crash of the
machine could bring it back over a torn log. Without it, `boot_id` distinguishes the crash of a process from that of the
machine.
"""

import os
import sys
from enum import Enum
from typing import Final

from minibroker_storage.data_directory.names import CLEAN_SHUTDOWN
from minibroker_storage.files import fsync_directory, write_atomically

_TEXT: Final = b'{"version":0,"brokerEpoch":-1}'


class LastStop(Enum):
    """The way a log was closed, which decides which of its files can be trusted."""

    CLEAN = "clean"
    """It was closed: all is there."""
    KILLED = "killed"
    """The process died and the machine ran on: what was written before the last write is whole."""
    CRASHED = "crashed"
    """The machine died: what was flushed is there, below the recovery point. Right for an unknown stop, too."""


def is_marked_clean(data_dir: str) -> bool:
    """Whether the file is there."""
    return os.path.exists(f"{data_dir}/{CLEAN_SHUTDOWN}")


def mark_clean(data_dir: str) -> None:
    """Write the file, on disk on return. `OSError`."""
    write_atomically(f"{data_dir}/{CLEAN_SHUTDOWN}", _TEXT, sync=True)


def unmark_clean(data_dir: str) -> None:
    """Remove the file if it is there, on disk on return. `OSError`."""
    if is_marked_clean(data_dir):
        os.unlink(f"{data_dir}/{CLEAN_SHUTDOWN}")
        fsync_directory(data_dir)


MAX_BOOT_ID: Final = 256
"""Bytes of the longest boot id."""


def boot_id() -> str | None:
    """Return the id of the machine's present run, or None where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return _sysctl(b"kern.bootsessionuuid") if sys.platform == "darwin" else None


def _sysctl(name: bytes) -> str | None:
    import ctypes  # noqa: PLC0415 - macOS only

    text = ctypes.create_string_buffer(MAX_BOOT_ID)
    size = ctypes.c_size_t(MAX_BOOT_ID)
    failed = ctypes.CDLL(None).sysctlbyname(name, text, ctypes.byref(size), None, ctypes.c_size_t(0))
    return None if failed else text.value.decode(errors="replace").strip() or None
