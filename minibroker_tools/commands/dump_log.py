"""kafka-dump-log: `minibroker dump` with the options of Kafka's DumpLogSegments."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from minibroker_tools.failures import ToolError
from minibroker_tools.options import Options
from minibroker_tools.output import flush

_FLAGS: Final = (
    "deep-iteration",
    "index-sanity-check",
    "offsets-decoder",
    "print-data-log",
    "share-group-state-decoder",
    "skip-record-metadata",
    "transaction-log-decoder",
    "verify-index-only",
)
_UNSUPPORTED: Final = ("cluster-metadata-decoder", "remote-log-metadata-decoder")
_DECODERS: Final = ("key-decoder-class", "value-decoder-class")
_STRING_DECODERS: Final = ("kafka.serializer.StringDecoder", "org.apache.kafka.tools.api.StringDecoder")
"""The names of Kafka's default decoder for keys and values."""


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-dump-log."""
    options = Options(tool, "This tool helps to parse a log file and dump its contents to the console.")
    options.value("files", help="REQUIRED: the files or directories, separated by commas", metavar="FILE,...")
    for name in _FLAGS:
        options.flag(name, help=f"see minibroker dump --help: --{name}")
    options.value("max-bytes", help="read only the first N bytes of each log", type=int, metavar="N")
    options.value("max-message-size", help="has no effect: batches of all sizes are read", type=int, metavar="N")
    for name in _UNSUPPORTED:
        options.flag(name, help="not supported: the broker has no such log")
    for name in _DECODERS:
        options.value(name, help="only StringDecoder is supported", metavar="CLASS")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the dump.

    Raises:
        ToolError: An option is not supported.
    """
    values = options.parse(arguments)
    values.require("files")
    for name in _UNSUPPORTED:
        if values.has(name):
            raise ToolError(f"--{name} is not supported")
    for name in _DECODERS:
        if values.text(name) not in {None, *_STRING_DECODERS}:
            raise ToolError(f"--{name} {values.text(name)} is not supported: no Java class can be run here")
    words = [f"--{name}" for name in _FLAGS if values.has(name)]
    if values.has("max-bytes"):
        words.append(f"--max-bytes={values.number('max-bytes', 0)}")
    flush()
    return subprocess.call([sys.executable, "-m", "minibroker", "dump", *words, f"--files={values.text('files')}"])  # noqa: S603 - our own program
