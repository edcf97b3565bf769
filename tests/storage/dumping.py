"""Helpers for the tests of dumps: dumps as text or JSON, and the recorded output of Kafka's tool."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minibroker_storage.dump import find
from minibroker_storage.dump.decoders import Decoder
from minibroker_storage.dump.events import is_fault
from minibroker_storage.dump.files import DumpOptions
from minibroker_storage.dump.json_lines import JsonWriter
from minibroker_storage.dump.text import TextWriter
from minibroker_storage.explain import explain

DATA = Path(__file__).parent / "data"
#: Valid and damaged files of all formats. Each directory has the output of Kafka 3.9.1's DumpLogSegments (.out, .err).
KAFKAS = DATA / "dump"
ORDERS = DATA / "kafka-3.9.1" / "orders-0"
DEEP = DumpOptions(deep_iteration=True)


class Dump(NamedTuple):
    """Standard output, standard error, and whether everything was valid."""

    out: str
    errors: str
    sound: bool

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def as_text(
    *paths: Path | str,
    options: DumpOptions = DEEP,
    print_data_log: bool = True,
    skip_record_metadata: bool = False,
    decode: Decoder | None = None,
) -> Dump:
    out, errors = io.StringIO(), io.StringIO()
    writer = TextWriter(
        out, errors, print_data_log=print_data_log, skip_record_metadata=skip_record_metadata, decode=decode
    )
    sound = True
    for event in find(map(str, paths), options):
        writer.write(event)
        sound = sound and not is_fault(event)
    writer.finish()
    return Dump(out.getvalue(), errors.getvalue(), sound)


def as_json(
    *paths: Path | str, options: DumpOptions = DEEP, print_data_log: bool = True, decode: Decoder | None = None
) -> list[dict[str, Any]]:
    out = io.StringIO()
    writer = JsonWriter(out, print_data_log=print_data_log, decode=decode)
    for event in find(map(str, paths), options):
        writer.write(event)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def explained(*paths: Path | str, options: DumpOptions = DEEP) -> Dump:
    out = io.StringIO()
    sound = explain(map(str, paths), options, out)
    return Dump(out.getvalue(), "", sound)


def log_file(directory: Path, parts: Sequence[bytes | bytearray], base_offset: int = 0) -> Path:
    """Write a segment's log, and return its path."""
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(parts))
    return path
