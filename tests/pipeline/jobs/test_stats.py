"""The sizes of formats and codecs, compared with the protocol's own reader and writer."""

import re
import tempfile
import xml.etree.ElementTree as ET
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given

from minibroker_pipeline.jobs.stats import Line, StatsReport, stats, stats_html, stats_text
from minibroker_pipeline.log_directories.partition_logs import LogNameError
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.decode.logs import logs, marker
from tests.pipeline.jobs.directories import put_log

TEN = [NewRecord(None, b"value%d" % number, 1_000 + number) for number in range(10)]
KEY_VALUE = [NewRecord(b"key", b"value", 1_000)]


def only(report: StatsReport) -> Line:
    (line,) = report.lines()
    return line


def sizes(line: Line) -> list[tuple[int, bool] | None]:
    return [None if size is None else (size.bytes, size.is_exact) for size in line.sizes]


def test_one_record_takes_34_bytes_as_v0_42_as_v1_and_76_as_v2(tmp_path: Path) -> None:
    put_log(tmp_path, "orders-0", bytes(build_batch(KEY_VALUE)))
    line = only(stats([str(tmp_path)]))
    assert sizes(line) == [(34, True), (42, True), (76, True)]
    assert (line.counts.records, line.counts.batches, line.counts.payload_bytes) == (1, 1, 8)
    assert line.overhead_per_record == 68


@pytest.mark.parametrize(
    ("data", "magic", "exact"),
    [
        (build_message_set(TEN, magic=0), 0, [True, True, False]),
        (build_message_set(TEN, magic=1), 1, [True, True, False]),
        (build_batch(TEN), 2, [True, True, True]),
    ],
)
def test_ten_records_take_320_400_and_191_bytes_in_whichever_format_they_are(
    tmp_path: Path, data: bytes, magic: int, exact: list[bool]
) -> None:
    put_log(tmp_path, "orders-0", bytes(data))
    line = only(stats([str(tmp_path)]))
    assert line.magic == magic
    assert sizes(line) == list(zip((320, 400, 191), exact, strict=True))


@pytest.mark.parametrize("codec", ["GZIP", "SNAPPY", "LZ4", "ZSTD"])
def test_the_size_of_compressed_records_in_other_formats_is_estimated_from_samples(tmp_path: Path, codec: str) -> None:
    records = TEN * 20
    put_log(tmp_path, "orders-0", bytes(build_batch(records, codec=CompressionCodec[codec])))
    line = only(stats([str(tmp_path)]))
    counts = line.counts
    assert counts.plain_bytes == counts.plain_v2 == len(build_batch(records))
    assert line.compression_ratio == counts.stored_bytes / counts.plain_bytes < 1
    if codec == "ZSTD":
        assert sizes(line) == [None, None, (counts.stored_bytes, True)]
    else:  # There is only one batch, and it is the sample.
        as_v0, as_v1 = (len(build_message_set(records, magic=magic, codec=CompressionCodec[codec])) for magic in (0, 1))
        assert sizes(line) == [(as_v0, False), (as_v1, False), (counts.stored_bytes, True)]


def test_a_wrapper_becomes_one_v2_batch(tmp_path: Path) -> None:
    put_log(tmp_path, "orders-0", bytes(build_message_set(TEN, magic=1, codec=CompressionCodec.GZIP)))
    line = only(stats([str(tmp_path)]))
    assert [size.bytes for size in line.plain_sizes] == [320, 400, 191]
    assert (line.counts.records, line.counts.batches) == (10, 1)


def test_headers_are_payload_and_markers_are_no_records(tmp_path: Path) -> None:
    record = NewRecord(b"k", None, 5, (("name", b"value"), ("none", None)))
    data = build_batch([record], producer_id=1, producer_epoch=0)
    put_log(tmp_path, "orders-0", bytes(data) + marker(1, 1, 1))
    counts = only(stats([str(tmp_path)])).counts
    assert (counts.records, counts.batches, counts.control_batches) == (1, 1, 1)
    assert (counts.key_bytes, counts.value_bytes, counts.header_bytes) == (1, 0, len("namevaluenone"))
    assert counts.stored_bytes == counts.plain_v2 == len(data) + len(marker(1, 1, 1))
    assert counts.plain_v0 == 26 + 1


@given(logs())
def test_the_sums_are_those_of_the_formats_own_reader(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        put_log(Path(directory), "orders-0", data)
        report = stats([directory])
    expected: dict[tuple[int, int], list[int]] = {}
    for batch in iter_batches(data):
        sums = expected.setdefault((batch.header.magic, int(batch.header.codec)), [0] * 6)
        sums[0] += batch.header.size_in_bytes
        if batch.header.is_control:
            continue
        sums[1] += 1
        for record in batch:
            names = [name.encode("utf-8", "surrogateescape") for name, _ in record.headers]
            sums[2] += 1
            sums[3] += len(record.key or b"")
            sums[4] += len(record.value or b"")
            sums[5] += sum(map(len, names)) + sum(len(value or b"") for _, value in record.headers)
    of_counts = attrgetter("stored_bytes", "batches", "records", "key_bytes", "value_bytes", "header_bytes")
    result = {(group.magic, group.codec): [*of_counts(counts)] for (_, _, group), counts in report.groups.items()}
    assert result == expected
    assert report.unreadable == []


def test_v2_is_exact_to_the_byte_also_where_it_is_compressed(tmp_path: Path) -> None:
    many = [NewRecord(b"k" * (number % 90), b"v" * (number * 37 % 9_000), 1_000 + number**2) for number in range(300)]
    data = build_message_set(many, magic=1, base_offset=0, codec=CompressionCodec.LZ4)
    put_log(tmp_path, "orders-0", bytes(data))
    assert only(stats([str(tmp_path)])).plain_sizes[2].bytes == len(build_batch(many))


def test_what_cannot_be_read_is_counted_and_named(tmp_path: Path) -> None:
    good, crushed = bytes(build_batch(TEN)), build_batch(TEN, base_offset=10, codec=CompressionCodec.GZIP)
    crushed[70:80] = b"\xff" * 10
    put_log(tmp_path, "orders-0", good + bytes(crushed) + good[:50])
    report = stats([str(tmp_path)])
    assert sum(line.counts.unreadable for line in report.lines()) == 1
    assert sum(line.counts.records for line in report.lines()) == 10
    assert report.unreadable[0].position == 191
    assert "cut short" in report.unreadable[1].reason
    assert f"passed over: {report.unreadable[0].path}: byte 191" in stats_text(report)


def varied(tmp_path: Path) -> Path:
    for topic, data in (
        ("a", build_message_set(TEN, magic=0)),
        ("b", build_batch(TEN * 9, codec=CompressionCodec.LZ4)),
        ("c", build_batch(TEN * 9, codec=CompressionCodec.ZSTD) + build_batch(TEN, base_offset=90)),
    ):
        for partition in range(2):
            put_log(tmp_path, f"{topic}-{partition}", bytes(data))
    return tmp_path


def test_lines_are_by_partition_or_by_topic_and_sum_up_to_the_total(tmp_path: Path) -> None:
    report = stats([str(varied(tmp_path))])
    assert [(line.topic, line.partition, line.codec) for line in report.lines()][:3] == [
        ("a", 0, "none"),
        ("a", 1, "none"),
        ("b", 0, "lz4"),
    ]
    assert [(line.topic, line.codec) for line in report.lines("topic")] == [
        ("a", "none"),
        ("b", "lz4"),
        ("c", "none"),
        ("c", "zstd"),
    ]
    total = report.total()
    assert total.counts.records == sum(line.counts.records for line in report.lines("topic")) == 400
    assert total.sizes[0] is None
    assert [line.topic for line in report.topics()] == ["a", "b", "c"]


def test_the_table_marks_estimates_and_what_cannot_be(tmp_path: Path) -> None:
    text = stats_text(stats([str(varied(tmp_path))]), "topic")
    zstd = next(line.split() for line in text.splitlines() if "zstd" in line)
    assert zstd[-3:-1] == ["-", "-"]
    assert re.search(r"^a +v0 +none +20 +20 +640 +26\.0 +1\.000 +640 +800 +~382$", text, re.MULTILINE)


def test_the_page_is_sound_and_holds_every_topic_and_two_plots(tmp_path: Path) -> None:
    page = stats_html(stats([str(varied(tmp_path))]))
    assert "http" not in page
    plots = [ET.fromstring(plot) for plot in re.findall(r"<svg.*?</svg>", page)]
    assert len(plots) == 2
    for plot in plots:
        texts = [text.text for text in plot.iter("text")]
        assert {"a", "b", "c"} <= set(texts)
    assert "v0 cannot hold it" in [text.text for text in plots[0].iter("text")]


def test_names_are_escaped_in_the_page(tmp_path: Path) -> None:
    directory = tmp_path / "<b>&"
    put_log(directory, "orders-0", bytes(build_batch(TEN)))
    assert "&lt;b&gt;&amp;" in stats_html(stats([str(directory)]))


def test_an_empty_directory_has_no_records(tmp_path: Path) -> None:
    report = stats([str(tmp_path)])
    assert report.lines() == []
    assert "no records" in stats_text(report)
    assert report.as_json()["total"]["records"] == 0
    assert "<svg" in stats_html(report)


def test_a_topic_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    put_log(tmp_path, "orders-0", b"")
    with pytest.raises(LogNameError, match="payments"):
        stats([str(tmp_path)], topics=["payments"])


def test_long_names_are_shortened_beside_the_plot_and_told_in_full(tmp_path: Path) -> None:
    name = "the.orders.of.all.customers.of.a.shop.with.a.long.name"
    put_log(tmp_path, f"{name}-0", bytes(build_batch([NewRecord(None, b"x", 0)])))
    page = stats_html(stats([str(tmp_path)]))
    assert f">the.orders.o…h.a.long.name<title>{name}</title>" in page
