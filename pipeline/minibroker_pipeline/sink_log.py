"""The log of Spark's file sink, `_spark_metadata`: it names the files of a stream's folder that count.

A micro-batch that was interrupted leaves files behind that belong to nothing, and its repetition writes others. The
folder's `_spark_metadata` names those that count, and Spark reads no others. Other readers have to ask here.
"""

import json
import os
from typing import Final
from urllib.parse import unquote, urlsplit

LOG: Final = "_spark_metadata"
_VERSION: Final = "v1"
_COMPACT: Final = ".compact"


class SinkLogError(Exception):
    """The log is not as Spark writes it; the message says where."""


def committed_files(folder: str) -> list[str]:
    """Paths (for other file systems addresses) of the files that count, in the order of micro-batches.

    No file counts before the first micro-batch is written. SinkLogError.
    """
    log = os.path.join(folder, LOG)
    batches: dict[int, str] = {}
    for name in os.listdir(log) if os.path.isdir(log) else ():
        number = name.removesuffix(_COMPACT)
        if number.isdigit():
            # A compact file says the same as those before it and, under the same number, more than its twin.
            batches[int(number)] = max(name, batches.get(int(number), ""), key=len)
    start = max((batch for batch, name in batches.items() if name.endswith(_COMPACT)), default=0)
    found: dict[str, None] = {}
    for batch in sorted(batch for batch in batches if batch >= start):
        for path, is_added in _entries(os.path.join(log, batches[batch])):
            if is_added:
                found[path] = None
            else:
                found.pop(path, None)
    return list(found)


def _entries(file: str) -> list[tuple[str, bool]]:
    with open(file, encoding="utf-8") as log:
        version, _, entries = log.read().partition("\n")
    if version != _VERSION:
        raise SinkLogError(f"{file}: the version is {version!r}, not {_VERSION}")
    try:
        lines = [json.loads(line) for line in entries.splitlines()]
        return [(_path(line["path"]), line["action"] == "add") for line in lines]
    except (ValueError, LookupError, TypeError) as error:
        raise SinkLogError(f"{file}: a line is not as Spark writes it: {error}") from error


def _path(address: str) -> str:
    parts = urlsplit(address)
    return unquote(parts.path) if parts.scheme in {"", "file"} else address
