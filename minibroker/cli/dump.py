"""`minibroker dump` prints log files in the format of Kafka's DumpLogSegments, as JSON, or with explanations."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TextIO

from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.records.record import Record
from minibroker_storage.dump import decoders, find
from minibroker_storage.dump.events import RecordFound, is_fault
from minibroker_storage.dump.files import DumpOptions, expand
from minibroker_storage.dump.json_lines import JsonWriter
from minibroker_storage.dump.text import TextWriter, java_text
from minibroker_storage.explain import explain

with lazy:
    from minibroker_registry import http_source, records, values

_DESCRIPTION: Final = """\
Show what is in the files of a log, as Kafka's DumpLogSegments does: .log, .index, .timeindex, .txnindex, .snapshot,
and the checkpoints beside them. A directory stands for all such files in it, - for a log on standard input.
The files may be in use: they are only read.
"""
_EPILOG: Final = (
    "Exit status: 0 when everything was read and is sound, 1 when something is wrong; the output says what."
)
_SOUND: Final = 0
_FAULTY: Final = 1
_INTERRUPTED: Final = 130


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the description and the options of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    option = parser.add_argument
    option("files", nargs="*", metavar="FILE", help="a file, a partition's or a data directory, or -")
    option("--files", dest="listed", default="", metavar="FILE,...", help="the files, as Kafka's tool takes them")
    option("--print-data-log", action="store_true", help="print records with their keys and values")
    option("--deep-iteration", action="store_true", help="print records, also those in compressed batches")
    option("--skip-record-metadata", action="store_true", help="print only keys and values of records")
    option("--max-bytes", type=size, metavar="N", help="read no more than the first N bytes of each log")
    option("--index-sanity-check", action="store_true", help="check whether a starting broker would keep the indexes")
    option("--verify-index-only", action="store_true", help="check the indexes against the log; print mismatches only")
    option("--format", choices=["auto", "0.7"], default="auto", help="0.7: the log is from before Kafka 0.8")
    decoder = parser.add_mutually_exclusive_group()
    for name, decode, topic in (
        ("--offsets-decoder", decoders.decode_group_record, "__consumer_offsets"),
        ("--transaction-log-decoder", decoders.decode_transaction_record, "__transaction_state"),
        ("--share-group-state-decoder", decoders.decode_share_state_record, "__share_group_state"),
    ):
        shown = f"the log is of {topic}: print its records"
        decoder.add_argument(name, dest="decoder", action="store_const", const=decode, help=shown)
    decoder.add_argument(
        "--schemas",
        nargs="?",
        const="",
        metavar="URL|DIR",
        help="decode keys and values with the schemas of a registry, or of the topic _schemas in a data directory; "
        "without a value, in that of FILE",
    )
    output_format = parser.add_mutually_exclusive_group()
    output_format.add_argument("--json", action="store_true", help="one JSON object a line")
    output_format.add_argument(
        "--explain", action="store_true", help="each field with its position, its bytes, its value and its meaning"
    )
    parser.set_defaults(run=run)


def size(text: str) -> int:
    """Parse a positive number of bytes."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes above 0")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Dump the files and return the exit status.

    Raises:
        OSError: the output cannot be written, or there are no schemas.
        ValueError: the URL of the registry is not valid.
    """
    options.files += filter(None, map(str.strip, options.listed.split(",")))
    if not options.files:
        options.parser.error("the following arguments are required: FILE")
    options.print_data_log |= options.schemas is not None or options.decoder is not None
    dump_options = DumpOptions(
        deep_iteration=options.deep_iteration or options.print_data_log,
        max_bytes=options.max_bytes,
        index_sanity_check=options.index_sanity_check,
        verify_index_only=options.verify_index_only,
        is_07=options.format == "0.7",
    )
    _report_empty_directories(options.files)
    out = sys.stdout
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:  # Logs can contain any text, and paths any bytes, in any locale.
        reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    try:
        sound = explain(options.files, dump_options, out) if options.explain else _dump(options, dump_options, out)
        out.flush()
    except BrokenPipeError:
        _discard_output()  # The reader of the pipe has closed it, so the remaining output is discarded.
        return _SOUND
    except KeyboardInterrupt:
        return _INTERRUPTED
    return _SOUND if sound else _FAULTY


def _report_empty_directories(paths: Iterable[str]) -> None:
    """Print a remark on stderr about the directories that contain no files to dump."""
    for path in paths:
        if os.path.isdir(path) and next(expand([path]), None) is None:
            sys.stderr.write(f"{path}: no log files; a partition's directory has some, such as DATA_DIR/orders-0\n")


def _dump(options: argparse.Namespace, dump_options: Any, out: TextIO) -> bool:
    decode = options.decoder if options.schemas is None else _schema_decoder(options.schemas, options.files)
    decoder = None if decode is None else decoders.Decoder(decode)
    shown: dict[str, Any] = {
        "print_data_log": options.print_data_log,
        "skip_record_metadata": options.skip_record_metadata,
        "decode": decoder,
    }
    writer: Any = JsonWriter(out, **shown) if options.json else TextWriter(out, sys.stderr, **shown)
    write: Callable[[Any], None] = writer.write
    sound = True
    for event in find(options.files, dump_options):
        write(event)
        sound = sound and not is_fault(event)
    writer.finish()
    return sound and (decoder is None or not decoder.failed)


def _schema_decoder(location: str, files: Sequence[str]) -> Callable[[Record], decoders.Decoded]:
    """Return a function that decodes records with the schemas at a URL, in a data directory or beside the files.

    Raises:
        FileNotFoundError: there is no topic `_schemas`.
        ValueError: the URL is not valid.
    """
    codec = values.Values(
        http_source.HttpSource(location) if "://" in location else _topic_source([location] if location else files)
    )

    def decode(record: Record) -> decoders.Decoded:
        found: list[tuple[str | None, object]] = []
        problem: str | None = None
        for data, is_key in ((record.key, True), (record.value, False)):
            text = None if data is None else java_text(data)
            value: object = data
            try:
                if data is not None and values.Values.has_schema(data, record.headers, is_key=is_key):
                    value = codec.decode(data, record.headers, is_key=is_key)
                    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            except values.UndecodableError as error:
                text = problem = f"Error at offset {record.offset}, skipping. {error}"
            found.append((text, value))
        (key_text, key), (value_text, value) = found
        return decoders.Decoded(key_text, value_text, key, value, problem, is_fault=problem is not None)

    return decode


def _topic_source(paths: Sequence[str]) -> "values.TopicSource":
    """Return the schemas in the first topic `_schemas` in or beside these paths, or in the directory above."""
    name = f"{SCHEMAS_TOPIC}-0"
    places = [os.path.normpath(os.path.join(path, above, name)) for path in paths for above in ("", "..", "../..")]
    place = next(filter(os.path.isdir, places), None)
    if place is None:
        raise FileNotFoundError(f"--schemas: there is no directory {name} in {', '.join(paths)}, nor beside it")
    read = [
        records.Record(event.record.key, event.record.value)
        for event in find([place], DumpOptions(deep_iteration=True))
        if isinstance(event, RecordFound) and event.record.key is not None and not event.header.is_control
    ]
    source = values.TopicSource()
    source.apply(True, read)
    return source


def _discard_output() -> None:
    """Discard the buffered output, so that the interpreter can exit without an error."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
