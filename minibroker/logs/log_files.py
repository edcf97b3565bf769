"""Files of logs that are not open: looked into, and removed."""

import logging
import os

from minibroker_storage.layout import LOG_SUFFIX, unlink_files

_logger = logging.getLogger(__name__)


def holds_data(directory: str) -> bool:
    """Is there a message in any segment? There is none without a directory. OSError."""
    try:
        with os.scandir(directory) as entries:
            return any(entry.name.endswith(LOG_SUFFIX) and entry.stat().st_size for entry in entries)
    except FileNotFoundError:
        return False


def unlink_logged(paths: list[str]) -> None:
    """Remove the files that a log has given up, in any thread; an error is logged."""
    for path in paths:
        try:
            unlink_files([path])
        except OSError as error:
            _logger.error("a deleted file cannot be removed: %s", error)  # noqa: TRY400 - the disk's fault
