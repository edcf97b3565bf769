"""Presents the report of `stats` as a table for terminals, and as an HTML page with embedded SVG plots."""

from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from minibroker_pipeline.jobs.reports import bytes_text, text_table
from minibroker_pipeline.jobs.stats import FORMATS, Line, Size, StatsReport

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
