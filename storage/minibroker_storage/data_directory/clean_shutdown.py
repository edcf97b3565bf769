"""`.kafka_cleanshutdown`: every log of the data directory was closed well (Kafka's `CleanShutdownFileHandler`).

The file is there between two runs only. A writer of logs removes it first, on disk, or a crash of the
machine could bring it back over a torn log.
"""

import os
from typing import Final

from minibroker_storage.atomic_files import fsync_directory, write_atomically
from minibroker_storage.data_directory.names import CLEAN_SHUTDOWN

_TEXT: Final = b'{"version":0,"brokerEpoch":-1}'


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
