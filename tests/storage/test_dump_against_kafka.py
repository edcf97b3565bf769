"""Dumps of generated logs compared with the output of Kafka's own tool, which is run by the test."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_storage.config import LogConfig
from minibroker_storage.dump.decoders import Decoded, Decoder, decode_group_record, decode_transaction_record
from tests.kafka.generated import FORMATS, descriptions, name_of
from tests.kafka.oracle import Oracle
from tests.kafka.our_side import accepted
from tests.storage.coordinator_logs import KeyAndValue, group_records, transaction_records, written
from tests.storage.dumping import as_text, log_file
from tests.storage.helpers import NOW, Home, a_batch, sequenced

TOOL = "kafka.tools.DumpLogSegments"


@pytest.mark.parametrize("choice", FORMATS, ids=name_of)
def test_a_generated_log_is_printed_alike(oracle: Oracle, tmp_path: Path, choice: tuple[int, CompressionCodec]) -> None:
    batches = [accepted(answer) for answer in oracle.build(descriptions(*choice, 150, gaps=True, seed="dump"))]
    path = log_file(tmp_path, batches)
    assert as_text(path).out == oracle.run(TOOL, "--print-data-log", "--files", str(path)).out


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
def test_indexes_of_old_formats_are_printed_alike(
    oracle: Oracle, tmp_path: Path, magic: int, codec: CompressionCodec
) -> None:
    records = [NewRecord(b"k", b"v", NOW + number) for number in range(3)]
    sets = [
        build_message_set(
            [record._replace(timestamp=record.timestamp + 10 * number) for record in records],
            magic=magic,
            base_offset=100 + 3 * number,
            codec=codec,
        )
        for number in range(20)
    ]
    log = log_file(tmp_path, sets, 100)
    entries: list[tuple[int, int, int]] = []
    position = 0
    for batch in iter_batches(log.read_bytes()):
        entries.append((batch.header.last_offset - 100, position, batch.header.max_timestamp))
        position += batch.header.size_in_bytes
    index, time_index = log.with_suffix(".index"), log.with_suffix(".timeindex")
    index.write_bytes(b"".join(struct.pack(">ii", offset, at) for offset, at, _ in entries[2::2]))
    if magic:
        time_index.write_bytes(b"".join(struct.pack(">qi", time, offset) for offset, _, time in entries[2::3]))
    else:
        time_index.write_bytes(b"")
    dump = as_text(log, index, time_index)
    assert dump.out == oracle.run(TOOL, "--print-data-log", "--files", f"{log},{index},{time_index}").out
    assert (dump.errors, dump.sound) == ("", True)


def test_a_partition_that_we_wrote_is_printed_alike_and_nothing_is_wrong(oracle: Oracle, tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(segment_bytes=3000, index_interval_bytes=100))
    for number in range(60):
        home.append(a_batch(3, timestamps=[NOW + 10 * number + by for by in range(3)]))
        home.append(sequenced(2 * number, 2, producer_id=number % 3))
    home.log.close()
    files = sorted(str(path) for path in home.path.iterdir() if path.stem.isdecimal())
    assert len(files) > 10
    dump = as_text(*files)
    assert dump.out == oracle.run(TOOL, "--print-data-log", "--files", ",".join(files)).out
    assert (dump.errors, dump.sound) == ("", True)


@pytest.mark.parametrize(
    ("option", "decode", "records"),
    [
        ("--offsets-decoder", decode_group_record, group_records),
        ("--transaction-log-decoder", decode_transaction_record, transaction_records),
    ],
)
def test_records_of_the_coordinators_are_printed_alike(
    oracle: Oracle,
    tmp_path: Path,
    option: str,
    decode: Callable[[Record], Decoded],
    records: Callable[[], list[KeyAndValue]],
) -> None:
    log = written(tmp_path, records())
    assert as_text(log, decode=Decoder(decode)).out == oracle.run(TOOL, option, "--files", str(log)).out
