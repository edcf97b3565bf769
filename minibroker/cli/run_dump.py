"""`minibroker dump` once its options are read: events of the files to lines on standard output."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Generator, Iterable
from io import TextIOWrapper
from typing import Any, Final, TextIO

from minibroker_storage.dump import decoders, find
from minibroker_storage.dump.events import is_fault
from minibroker_storage.dump.files import DumpOptions, expand
from minibroker_storage.dump.json_lines import JsonWriter
from minibroker_storage.dump.text import TextWriter
from minibroker_storage.explain import explain

_SOUND: Final = 0
_FAULTY: Final = 1
_INTERRUPTED: Final = 130
_DECODERS: Final = {
    "offsets_decoder": "decode_group_record",
    "transaction_log_decoder": "decode_transaction_record",
    "share_group_state_decoder": "decode_share_state_record",
}
"""The functions of `minibroker_storage.dump.decoders` by the options that ask for them."""


def dump(options: argparse.Namespace) -> int:
    """Dump the files; returns the exit status. `OSError` when the output cannot be written."""
    options.print_data_log |= any(getattr(options, name) for name in _DECODERS)
    dump_options = DumpOptions(
        deep_iteration=options.deep_iteration or options.print_data_log,
        max_bytes=options.max_bytes,
        index_sanity_check=options.index_sanity_check,
        verify_index_only=options.verify_index_only,
        is_07=options.format == "0.7",
    )
    _remark_on_empty(options.files)
    with _standard_output() as out:
        try:
            sound = explain(options.files, dump_options, out) if options.explain else _dump(options, dump_options, out)
            out.flush()
        except BrokenPipeError:
            _discard_output()  # the reader has closed the pipe
            return _SOUND
        except KeyboardInterrupt:
            return _INTERRUPTED
    return _SOUND if sound else _FAULTY


def _remark_on_empty(paths: Iterable[str]) -> None:
    """Say on stderr which of the directories have no files that could be dumped."""
    for path in paths:
        if os.path.isdir(path) and next(expand([path]), None) is None:
            sys.stderr.write(f"{path}: no log files; a partition's directory has some, such as DATA_DIR/orders-0\n")


def _dump(options: argparse.Namespace, dump_options: Any, out: TextIO) -> bool:
    decoder = _decoder(options)
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


def _decoder(options: argparse.Namespace) -> Any:
    """The decoder of a coordinator's topic, None unless the options name one."""
    function = next((function for name, function in _DECODERS.items() if getattr(options, name)), None)
    if function is None:
        return None
    return decoders.Decoder(getattr(decoders, function))


@contextlib.contextmanager
def _standard_output() -> Generator[TextIO]:
    """Standard output as UTF-8 in blocks, whatever the locale says: logs hold any text, and paths hold any bytes."""
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:
        yield sys.stdout
        return
    sys.stdout.flush()
    out = TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape", newline="\n")
    try:
        yield out
    finally:
        out.detach()


def _discard_output() -> None:
    """Let what is still buffered go nowhere, so that the interpreter can end quietly."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
