"""How much topics take on disk by partition, message format and codec, and would take in other formats."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from minibroker_pipeline.decode import Damage, load_engine
from minibroker_pipeline.decode.columns import CODEC_NAMES
from minibroker_pipeline.filesystem import FileSystem
from minibroker_pipeline.jobs.reports import bytes_text, text_table
from minibroker_pipeline.jobs.segment_walk import BadBytes, Entries, read_entries, walk_records
from minibroker_pipeline.jobs.sizes import Counts, Group, count_entries, measure_records, sample
from minibroker_pipeline.jobs.task_runner import SCANNED_BYTES_PER_PROCESS, run_tasks
from minibroker_pipeline.log_directories.partition_logs import find_partitions, open_partition, select
from minibroker_protocol.errors import DecodeError, EncodeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SAMPLES_PER_GROUP: Final = 4
"""The number of compressed entries to rebuild per group and segment."""
_MAX_UNREADABLE: Final = 1000
FORMATS: Final = (0, 1, 2)

_Key = tuple[str, int, Group]


class Segment(NamedTuple):
    """A log file to measure."""

    filesystem: FileSystem
    path: str
    topic: str
    partition: int
    size: int


class Unreadable(NamedTuple):
    """Bytes that were skipped."""

    path: str
    position: int
    size: int
    reason: str


class Size(NamedTuple):
    """The size in another format. It is an estimate if batches would have to be formed or compressed again."""

    bytes: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Line:
    """The sizes for one topic, partition, format and codec, or for several together.

    A field such as the topic is None if the line combines several values of it. Sizes are listed by format version.
    A size is None if the format cannot store the records: only v2 supports zstd.
    """

    topic: str | None
    partition: int | None
    magic: int | None
    codec: str | None
    counts: Counts
    #: The size in each message format if the codec stays the same, or None if that is impossible.
    sizes: tuple[Size | None, ...]
    #: The uncompressed size in each message format.
    plain_sizes: tuple[Size, ...]

    @property
    def overhead_per_record(self) -> float | None:
        """The bytes that the format adds to a record's key, value and headers, before compression."""
        counts = self.counts
        return (counts.plain_bytes - counts.payload_bytes) / counts.records if counts.records else None

    @property
    def compression_ratio(self) -> float | None:
        """The bytes in the log divided by the bytes without compression, such as 0.25 for a quarter."""
        return self.counts.stored_bytes / self.counts.plain_bytes if self.counts.plain_bytes else None

    def as_json(self) -> dict[str, Any]:
        """Return the line as JSON."""
        counts = self.counts
        return {
            "topic": self.topic,
            "partition": self.partition,
            "format": None if self.magic is None else f"v{self.magic}",
            "codec": self.codec,
            "records": counts.records,
            "batches": counts.batches,
            "controlBatches": counts.control_batches,
            "bytes": counts.stored_bytes,
            "uncompressedBytes": counts.plain_bytes,
            "keyBytes": counts.key_bytes,
            "valueBytes": counts.value_bytes,
            "headerBytes": counts.header_bytes,
            "overheadPerRecord": self.overhead_per_record,
            "compressionRatio": self.compression_ratio,
            "bytesAs": _sizes_json(self.sizes),
            "uncompressedBytesAs": _sizes_json(self.plain_sizes),
            "unreadableBatches": counts.unreadable,
        }


def _sizes_json(sizes: Sequence[Size | None]) -> dict[str, Any]:
    return {f"v{magic}": size and {"bytes": size.bytes, "exact": size.is_exact} for magic, size in enumerate(sizes)}


@dataclass(slots=True)
class StatsReport:
    """The sizes measured by `stats`."""

    paths: tuple[str, ...]
    segments: int = 0
    groups: dict[_Key, Counts] = field(default_factory=dict[_Key, Counts])
    #: The first thousand parts of files that are not log entries; `verify` suggests remedies for them.
    unreadable: list[Unreadable] = field(default_factory=list[Unreadable])

    def lines(self, by: str = "partition") -> list[Line]:
        """Return a line for each topic, partition, format and codec.

        If `by` is "topic", combine the partitions of a topic.
        """
        lines = [_make_line(key, counts) for key, counts in sorted(self.groups.items())]
        if by == "partition":
            return lines
        lines.sort(key=lambda line: (line.topic or "", line.magic or 0, line.codec or ""))
        return [
            _combine(list(group), topic=topic, magic=magic, codec=codec)
            for (topic, magic, codec), group in groupby(lines, lambda line: (line.topic, line.magic, line.codec))
        ]

    def topics(self) -> list[Line]:
        """Return a line for each topic."""
        return [
            _combine(list(topic_lines), topic=topic)
            for topic, topic_lines in groupby(self.lines(), lambda line: line.topic)
        ]

    def total(self) -> Line:
        """Return a single line for everything."""
        return _combine(self.lines())

    def as_json(self, by: str = "partition") -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "paths": list(self.paths),
            "segments": self.segments,
            "groups": [line.as_json() for line in self.lines(by)],
            "total": self.total().as_json(),
            "unreadable": [piece._asdict() for piece in self.unreadable],
        }


def stats(
    paths: Sequence[str],
    *,
    topics: Sequence[str] = (),
    spark: "SparkSession | None" = None,
    processes: int | None = None,
) -> StatsReport:
    """Measure the logs in data directories, or in directories of single partitions.

    Args:
        paths: directories of this machine, or addresses that fsspec supports.
        topics: the topics to measure, or empty for all except internal topics.
        spark: the session that runs the tasks. Without a session, the tasks run in local `processes`.
        processes: the maximum number of processes, or None for one per CPU if there is enough to read.

    Returns:
        The sizes. They are exact, except for sizes in other formats that `Size` marks as estimates. Damaged entries
        are skipped and counted. Checksums are not verified.

    Raises:
        logs.LogNameError: a topic is missing, or a partition is in two directories.
        OSError: a directory or a file cannot be read.
    """
    segments = [
        Segment(log.filesystem, log.path(segment), log.topic, log.partition, segment.size)
        for path in paths
        for log in map(open_partition, select(find_partitions([path]), topics=topics))
        for segment in log.segments
    ]
    report = StatsReport(tuple(paths), len(segments))
    for groups, unreadable in run_tasks(
        _measure_segment,
        segments,
        [segment.size for segment in segments],
        label=("stats", "segments"),
        spark=spark,
        processes=processes,
        bytes_per_process=SCANNED_BYTES_PER_PROCESS,
    ):
        for key, counts in groups.items():
            report.groups.setdefault(key, Counts()).add(counts)
        report.unreadable += unreadable[: _MAX_UNREADABLE - len(report.unreadable)]
    report.unreadable.sort()
    return report


def _measure_segment(segment: Segment) -> tuple[dict[_Key, Counts], list[Unreadable]]:
    """Return the counts of a segment, and its unreadable bytes."""
    engine = load_engine()
    unreadable: list[Unreadable] = []
    groups: dict[Group, Counts] = {}
    samples: dict[Group, int] = {}
    with segment.filesystem.open(segment.path) as file:
        for part in read_entries(file, segment.size, engine):
            if isinstance(part, BadBytes):
                if len(unreadable) < _MAX_UNREADABLE:
                    unreadable.append(Unreadable(segment.path, part.position, part.size, part.reason))
                continue
            for group, counts in count_entries(part).items():
                groups.setdefault(group, Counts()).add(counts)
            damage: list[Damage] = []
            for walked in walk_records(part, np.arange(len(part.headers)), engine, damage):
                for group, counts in measure_records(part, walked, engine).items():
                    groups[group].add(counts)
            for item in damage:
                header = part.headers[np.searchsorted(part.headers["position"], item.position - part.position)]
                groups[Group(int(header["magic"]), int(header["codec"]))].unreadable += 1
                unreadable.append(Unreadable(segment.path, item.position, item.size, item.message))
            for group, counts in groups.items():
                _take_samples(part, group, counts, samples)
    return {(segment.topic, segment.partition, group): counts for group, counts in groups.items()}, unreadable


def _take_samples(entries: Entries, group: Group, counts: Counts, samples: dict[Group, int]) -> None:
    headers = entries.headers
    if not 0 < group.codec < len(CODEC_NAMES) or samples.get(group, 0) >= _SAMPLES_PER_GROUP:
        return
    lines = np.flatnonzero((headers["magic"] == group.magic) & (headers["codec"] == group.codec))
    step = max(len(lines) // _SAMPLES_PER_GROUP, 1)
    for line in lines[::step][: _SAMPLES_PER_GROUP - samples.get(group, 0)].tolist():
        try:
            counts.add(sample(entries, line, group))
        except (DecodeError, EncodeError):
            continue  # The entry was already counted as damaged.
        samples[group] = samples.get(group, 0) + 1


def _make_line(key: _Key, counts: Counts) -> Line:
    topic, partition, group = key
    codec = CODEC_NAMES[group.codec] if group.codec < len(CODEC_NAMES) else f"unknown ({group.codec})"
    sizes = tuple(_find_size(magic, group, counts) for magic in FORMATS)
    is_v2 = group.magic == FORMATS[-1]
    plain = (Size(counts.plain_v0, True), Size(counts.plain_v1, True), Size(counts.plain_v2, is_v2))
    return Line(topic, partition, group.magic, codec, counts, sizes, plain)


def _find_size(magic: int, group: Group, counts: Counts) -> Size | None:
    if magic == group.magic:
        return Size(counts.stored_bytes, True)
    plain = int(getattr(counts, f"plain_v{magic}"))
    if not group.codec:
        return Size(plain, magic != FORMATS[-1])
    sampled = int(getattr(counts, f"sampled_plain_v{magic}"))
    if not sampled:
        return None if plain else Size(0, True)
    return Size(round(plain * int(getattr(counts, f"sampled_stored_v{magic}")) / sampled), False)


def _combine(
    lines: Sequence[Line], *, topic: str | None = None, magic: int | None = None, codec: str | None = None
) -> Line:
    counts = Counts.sum_of(line.counts for line in lines)
    sizes = tuple(_sum([line.sizes[number] for line in lines]) for number in FORMATS)
    plain = tuple(_sum([line.plain_sizes[number] for line in lines]) or Size(0, True) for number in FORMATS)
    return Line(topic, None, magic, codec, counts, sizes, plain)


def _sum(sizes: Sequence[Size | None]) -> Size | None:
    known_sizes = [size for size in sizes if size is not None]
    total = Size(sum(size.bytes for size in known_sizes), all(size.is_exact for size in known_sizes))
    return total if len(known_sizes) == len(sizes) else None


_NOTE: Final = (
    "overhead: what the format adds to key, value and headers of a record, before compression. ratio: bytes in the log"
    " by bytes without compression. v0, v1, v2: the size in that format under the same codec; ~ is estimated, from"
    " samples or from batches of 16 KiB, and - is what the format cannot hold. v0 and v1 have no headers."
)
_TITLES: Final = ("topic", "partition", "format", "codec", "records", "batches", "bytes", "overhead", "ratio")
_SERIES: Final = (("in the log", "#3b6ea8"), ("v0", "#b5b5b5"), ("v1", "#8c8c8c"), ("v2", "#5a9e6f"))
_MAX_TOPICS: Final = 20
_BAR: Final = 14
_LABEL_WIDTH: Final = 190
_LABEL_LETTERS: Final = 26
_PLOT_WIDTH: Final = 560
_PAYLOAD_COLOR: Final = "#e0a343"
_STYLE: Final = """\
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th.name, td.name { text-align: left; }
td.name:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 14rem; }
svg { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; }
"""


def stats_text(report: StatsReport, by: str = "partition") -> str:
    """Return the table with a total line, and a list of the skipped bytes."""
    lines = report.lines(by)
    titles = [*_TITLES, *(f"v{magic}" for magic in FORMATS)]
    rows = [_line_cells(line) for line in lines]
    if len(lines) > 1:
        rows.append(["total", "", *_line_cells(report.total())[2:]])
    text = text_table(titles, rows, left=(0, 2, 3)) if rows else "no records\n"
    for piece in report.unreadable:
        text += f"passed over: {piece.path}: byte {piece.position}, {piece.size} bytes: {piece.reason}\n"
    return text + f"\n{_NOTE}\n"


def _line_cells(line: Line) -> list[str]:
    counts = line.counts
    return [
        line.topic or "",
        "" if line.partition is None else str(line.partition),
        "" if line.magic is None else f"v{line.magic}",
        line.codec or "",
        f"{counts.records:,}",
        f"{counts.batches + counts.control_batches:,}",
        f"{counts.stored_bytes:,}",
        "-" if line.overhead_per_record is None else f"{line.overhead_per_record:.1f}",
        "-" if line.compression_ratio is None else f"{line.compression_ratio:.3f}",
        *("-" if size is None else f"{'' if size.is_exact else '~'}{size.bytes:,}" for size in line.sizes),
    ]


def stats_html(report: StatsReport) -> str:
    """Return a self-contained HTML page, which loads nothing from elsewhere."""
    total = report.total().counts
    summary = f"{total.records:,} records in {report.segments:,} segments, {bytes_text(total.stored_bytes)}."
    topics = sorted(report.topics(), key=lambda line: -line.counts.stored_bytes)
    shown = topics[:_MAX_TOPICS]
    note = f"<p>The {_MAX_TOPICS} largest of {len(topics)} topics are plotted.</p>"
    unreadable = "".join(
        f"<li>{escape(piece.path)}: byte {piece.position}, {piece.size} bytes: {escape(piece.reason)}</li>"
        for piece in report.unreadable
    )
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8"><title>Message formats on disk</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_STYLE}</style></head><body>",
            "<h1>Message formats on disk</h1>",
            f"<p>{escape(', '.join(report.paths))}: {summary}</p>",
            "<h2>Size in each format, under the codecs in use</h2>",
            _draw_plot([_compressed_bars(line) for line in shown], _SERIES),
            "<h2>Size in each format without compression: payload and what the format adds</h2>",
            _draw_plot([_plain_bars(line) for line in shown], (("payload", _PAYLOAD_COLOR), *_SERIES[1:])),
            note if len(topics) > len(shown) else "",
            "<h2>Figures</h2>",
            _html_table(report),
            f"<p>{escape(_NOTE)}</p>",
            f"<h2>Passed over</h2><ul>{unreadable}</ul>" if unreadable else "",
            "</body></html>",
            "",
        )
    )


def _html_table(report: StatsReport) -> str:
    titles = [*_TITLES, *(f"v{magic}" for magic in FORMATS)]
    rows = [_line_cells(line) for line in report.lines()]
    rows.append(["total", "", *_line_cells(report.total())[2:]])
    names = (0, 2, 3)

    def row(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=name' if column in names else ''}>{escape(cell)}</{tag}>"
            for column, cell in enumerate(cells)
        )

    body = "\n".join(f"<tr>{row(cells, 'td')}</tr>" for cells in rows)
    head = f"<thead><tr>{row(titles, 'th')}</tr></thead>"
    return f"<div class=wide><table>{head}\n<tbody>\n{body}\n</tbody></table></div>"


class _Bar(NamedTuple):
    """A bar: the color and the number of bytes of each part, and the text after the bar."""

    pieces: tuple[tuple[str, int], ...]
    text: str


class _Bars(NamedTuple):
    """The bars of one topic."""

    label: str
    bars: tuple[_Bar, ...]


def _compressed_bars(line: Line) -> _Bars:
    sizes = (Size(line.counts.stored_bytes, True), *line.sizes)
    bars = tuple(
        _make_bar(((color, size.bytes),), size) if size else _Bar((), f"{name} cannot hold it")
        for (name, color), size in zip(_SERIES, sizes, strict=True)
    )
    return _Bars(line.topic or "", bars)


def _plain_bars(line: Line) -> _Bars:
    payload = line.counts.key_bytes + line.counts.value_bytes
    bars: list[_Bar] = []
    for magic, size, (_, color) in zip(FORMATS, line.plain_sizes, _SERIES[1:], strict=True):
        payload_bytes = payload + (line.counts.header_bytes if magic == FORMATS[-1] else 0)
        parts = ((_PAYLOAD_COLOR, payload_bytes), (color, max(size.bytes - payload_bytes, 0)))
        bars.append(_make_bar(parts, size))
    return _Bars(line.topic or "", tuple(bars))


def _make_bar(pieces: tuple[tuple[str, int], ...], size: Size) -> _Bar:
    return _Bar(pieces, f"{'' if size.is_exact else '~'}{bytes_text(size.bytes)}")


def _shorten_name(name: str) -> str:
    """Shorten a name so that it fits beside the plot. The end is kept, because long names often differ at the end."""
    half = _LABEL_LETTERS // 2
    return name if len(name) <= _LABEL_LETTERS else f"{name[: half - 1]}…{name[-half:]}"


def _draw_plot(topics: Sequence[_Bars], legend: Sequence[tuple[str, str]]) -> str:
    """Draw horizontal bars, grouped by topic, on a common scale."""
    longest = max((sum(size for _, size in bar.pieces) for topic in topics for bar in topic.bars), default=0) or 1
    elements: list[str] = []
    x = _LABEL_WIDTH
    for name, color in legend:
        elements.append(f'<rect x="{x}" y="4" width="12" height="12" fill="{color}"/>')
        elements.append(f'<text x="{x + 16}" y="14">{escape(name)}</text>')
        x += 110
    y = 28
    for topic in topics:
        middle = y + len(topic.bars) * _BAR / 2 + 4
        label = f"{escape(_shorten_name(topic.label))}<title>{escape(topic.label)}</title>"
        elements.append(f'<text x="{_LABEL_WIDTH - 10}" y="{middle:.0f}" text-anchor="end">{label}</text>')
        for bar in topic.bars:
            bar_x = float(_LABEL_WIDTH)
            for color, size in bar.pieces:
                width = size / longest * _PLOT_WIDTH
                shape = f'x="{bar_x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR - 2}"'
                elements.append(f'<rect {shape} fill="{color}"/>')
                bar_x += width
            elements.append(f'<text x="{bar_x + 5:.1f}" y="{y + _BAR - 4}">{escape(bar.text)}</text>')
            y += _BAR
        y += 12
    width = _LABEL_WIDTH + _PLOT_WIDTH + 120
    return f'<svg viewBox="0 0 {width} {y}" width="{width}" height="{y}" role="img">{"".join(elements)}</svg>'
