"""A segment: its batches to scale, and its index entries."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from minibroker_storage.log import Log
from minibroker_storage.views.look_ups import find_offset
from minibroker_storage.views.snapshot import BatchView, batch_page
from tests.broker.harness import Harness, batch
from tests.drawings.svg import Drawing

TIME: Final = 1_700_000_000_000
_SIZES: Final = (3, 1, 4, 2, 3, 1, 2, 4, 3)
"""The number of records in each batch."""
_SOUGHT: Final = 17
_WIDTH: Final = 1_000
_LEFT: Final = 10
_ENTRY: Final = 186
_LOG_AT: Final = 190


def index_entries() -> Drawing:
    """Draw the offset index, the time index and the log of one segment."""
    with TemporaryDirectory() as directory:
        harness = Harness(directory)
        harness.create("orders", index_interval_bytes="250")
        at = 0
        for count in _SIZES:
            values = [b"order %d is paid" % (at + number) for number in range(count)]
            assert not harness.produce(batch(*values, timestamp=TIME + 10 * at), "orders").error_code
            at += count
        topic = harness.core.topics.get("orders")
        assert topic is not None
        log = topic.partitions[0].log
        assert isinstance(log, Log)
        drawing = _draw(log, batch_page(log, 0).batches)
        harness.close()
    return drawing


def _draw(log: Log, batches: tuple[BatchView, ...]) -> Drawing:
    drawing = Drawing(_WIDTH, "An offset index, a time index, and the batches that they point to")
    segment = log.segments[0]
    scale = (_WIDTH - 2 * _LEFT) / segment.size
    places = {batch.position: _LEFT + batch.position * scale for batch in batches}
    stem = Path(segment.log.path).stem
    drawing.text(_LEFT, 16, f"{stem}.index", "title")
    drawing.text(_LEFT + 250, 16, "8 bytes an entry: offset less base offset, position in the log", "soft")
    index = segment.offset_index
    raw = Path(segment.log.path).with_suffix(".index").read_bytes()
    for slot in range(index.entries):
        entry = index.entry(slot)
        x = _LEFT + float(slot * _ENTRY)
        drawing.box(x, 24, _ENTRY - 12, 38, "box")
        drawing.text(x + 8, 39, raw[8 * slot : 8 * slot + 8].hex(" ", -2), "bytes")
        drawing.text(x + 8, 55, f"offset {entry.offset}, position {entry.position}")
        drawing.line((x + 60, 62), (places[entry.position] + 6, _LOG_AT), kind="arrow")
    drawing.text(_LEFT, _LOG_AT - 10, f"{stem}.log", "title")
    for batch_view in batches:
        x = places[batch_view.position]
        width = batch_view.size * scale - 2
        drawing.box(x, _LOG_AT, width, 58, "box" if batch_view.is_indexed else "")
        drawing.text(x + 6, _LOG_AT + 17, f"{batch_view.base_offset}-{batch_view.last_offset}", "title")
        drawing.text(x + 6, _LOG_AT + 34, f"at {batch_view.position}")
        drawing.text(x + 6, _LOG_AT + 50, f"{batch_view.size} bytes", "soft")
    drawing.text(_LEFT, _LOG_AT + 76, "offsets, position and size of each batch, to scale", "soft")
    _draw_times(drawing, log, stem, _LOG_AT + 110)
    _draw_search(drawing, log, _LOG_AT + 190)
    return drawing


def _draw_times(drawing: Drawing, log: Log, stem: str, y: float) -> None:
    segment = log.segments[0]
    index = segment.time_index
    raw = Path(segment.log.path).with_suffix(".timeindex").read_bytes()
    drawing.text(_LEFT, y, f"{stem}.timeindex", "title")
    drawing.text(_LEFT + 250, y, "12 bytes an entry: largest timestamp so far, offset less base offset", "soft")
    for slot in range(index.entries):
        entry = index.entry(slot)
        x = _LEFT + slot * (_ENTRY + 44)
        drawing.box(x, y + 8, _ENTRY + 32, 38, "done")
        drawing.text(x + 8, y + 23, raw[12 * slot : 12 * slot + 12].hex(" ", -2), "bytes")
        drawing.text(x + 8, y + 39, f"…{entry.timestamp % 1_000_000} ms, offset {entry.offset}")


def _draw_search(drawing: Drawing, log: Log, y: float) -> None:
    """Draw the steps of an offset lookup, as the lab lists them."""
    drawing.text(_LEFT, y, f"Find offset {_SOUGHT}", "title")
    for line, step in enumerate(find_offset(log, _SOUGHT).steps, 1):
        drawing.text(_LEFT + 12, y + 19 * line, f"{line}. {step.text}")
