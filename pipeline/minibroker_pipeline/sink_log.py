"""The log of Spark's file sink, `_spark_metadata`, which lists the valid files in a stream's output folder.

An interrupted micro-batch leaves orphaned files behind, and its repetition writes other files. Spark therefore reads
only the files that the log lists. Other readers must call `committed_files`.
"""

import json
import os
from typing import Final
from urllib.parse import unquote, urlsplit

LOG: Final = "_spark_metadata"
_VERSION: Final = "v1"
_COMPACT: Final = ".compact"


class SinkLogError(Exception):
    """A log that is not in Spark's format. The message names the file."""


def committed_files(folder: str) -> list[str]:
    """Return the valid files in the order of their micro-batches, as local paths or as addresses on other file systems.

    The result is empty until the first micro-batch is written.

    Raises:
        SinkLogError: the log is not in Spark's format.
    """
    log = os.path.join(folder, LOG)
    batches: dict[int, str] = {}
    for name in os.listdir(log) if os.path.isdir(log) else ():
        number = name.removesuffix(_COMPACT)
        if number.isdigit():
            # If a number has a plain and a compact file, choose the compact one, whose name is longer: a compact file
            # repeats the entries of all earlier files.
            batches[int(number)] = max(name, batches.get(int(number), ""), key=len)
    start = max((batch for batch, name in batches.items() if name.endswith(_COMPACT)), default=0)
    paths: dict[str, bool] = {}
    for batch in sorted(batch for batch in batches if batch >= start):
        paths.update(_read_entries(os.path.join(log, batches[batch])))
    return [path for path, is_added in paths.items() if is_added]


def _read_entries(file: str) -> list[tuple[str, bool]]:
    with open(file, encoding="utf-8") as log:
        version, _, entries = log.read().partition("\n")
    if version != _VERSION:
        raise SinkLogError(f"{file}: the version is {version!r}, not {_VERSION}")
    try:
        lines = [json.loads(line) for line in entries.splitlines()]
        return [(_decode_path(line["path"]), line["action"] == "add") for line in lines]
    except (ValueError, LookupError, TypeError) as error:
        raise SinkLogError(f"{file}: a line is not as Spark writes it: {error}") from error


def _decode_path(address: str) -> str:
    url = urlsplit(address)
    return unquote(url.path) if url.scheme in {"", "file"} else address
