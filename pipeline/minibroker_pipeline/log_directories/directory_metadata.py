"""`meta.properties` and minibroker's topics file of a data directory, as a copy of it takes them over."""

import json
from collections.abc import Sequence
from typing import Any

from minibroker_pipeline.log_directories.partition_logs import PartitionLog
from minibroker_storage.data_directory.names import META_PROPERTIES, TOPICS_FILE


def carried_files(logs: Sequence[PartitionLog]) -> dict[str, bytes]:
    """The small files of these logs' data directory for a copy that has them only, by name. `OSError`.

    Of the first one, where there are several directories.
    """
    found: dict[str, bytes] = {}
    if not logs:
        return found
    data = logs[0].data
    topics = {log.topic for log in logs}
    for name in (META_PROPERTIES, TOPICS_FILE):
        try:
            content = data.filesystem.read(f"{data.path}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        found[name] = content if name == META_PROPERTIES else _only(content, topics)
    return found


def _only(content: bytes, topics: set[str]) -> bytes:
    """The file of topics without others; as it is where it cannot be read, for the broker to say so."""
    try:
        document: Any = json.loads(content)
        document["topics"] = {name: entry for name, entry in document["topics"].items() if name in topics}
    except (ValueError, KeyError, TypeError, AttributeError):
        return content
    return json.dumps(document, indent=1).encode()
