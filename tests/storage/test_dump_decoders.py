"""The coordinators' records, compared with the output of Kafka 3.9.1's DumpLogSegments for the same logs."""

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_storage.dump.decoders import Decoded, Decoder, decode_group_record, decode_transaction_record
from tests.storage.coordinator_logs import (
    GROUP_KEY,
    OFFSET,
    OFFSET_KEY,
    TRANSACTION_KEY,
    KeyAndValue,
    group_records,
    transaction_records,
    transaction_value,
    written,
)
from tests.storage.dumping import DATA, as_json, as_text, log_file
from tests.storage.helpers import NOW

GOLDEN = DATA / "coordinators"
Decode = Callable[[Record], Decoded]
LOGS: dict[str, tuple[Decode, Callable[[], list[KeyAndValue]]]] = {
    "offsets": (decode_group_record, group_records),
    "transactions": (decode_transaction_record, transaction_records),
}


@pytest.mark.parametrize("name", LOGS)
def test_every_kind_of_record_is_printed_as_kafkas_tool_prints_it(name: str, tmp_path: Path) -> None:
    decode, records = LOGS[name]
    dump = as_text(written(tmp_path, records()), decode=Decoder(decode))
    assert dump.out.replace(f"{tmp_path}/", "") == (GOLDEN / f"{name}.out").read_text(encoding="utf-8")
    assert (dump.errors, dump.sound) == ("", True)


@pytest.mark.parametrize("name", LOGS)
def test_records_of_another_kind_are_nothing_wrong(name: str, tmp_path: Path) -> None:
    decode, records = LOGS[name]
    decoder = Decoder(decode)
    as_text(written(tmp_path, records()), decode=decoder)
    assert not decoder.failed


GROUP_RECORD = (decode_group_record, (OFFSET_KEY, OFFSET))
TRANSACTION_RECORD = (decode_transaction_record, (TRANSACTION_KEY, transaction_value(1, {"t": [0]})))
UNREADABLE: list[tuple[tuple[Decode, KeyAndValue], KeyAndValue, str]] = [
    (GROUP_RECORD, (None, b"x"), "The record has no key."),
    (GROUP_RECORD, (b"", b"x"), "Could not read version from key's buffer."),
    (GROUP_RECORD, (OFFSET_KEY[:6], OFFSET), "Could not read record with version 1 from key's buffer due to: "),
    (GROUP_RECORD, (OFFSET_KEY, b""), "Could not read version from value's buffer."),
    (GROUP_RECORD, (OFFSET_KEY, OFFSET[:5]), "Could not read record with version 3 from value's buffer due to: "),
    (GROUP_RECORD, (OFFSET_KEY, b"\x00\x4d"), "Could not read record with version 77 from value's buffer due to: "),
    (GROUP_RECORD, (GROUP_KEY, b"\x00\x03\x00"), "Could not read record with version 3 from value's buffer due to: "),
    (TRANSACTION_RECORD, (None, b"x"), "The record has no key."),
    (TRANSACTION_RECORD, (b"", b"x"), "Could not read version from key's buffer."),
    (TRANSACTION_RECORD, (TRANSACTION_KEY[:-1], b"x"), "Could not read record with version 0 from key's buffer due "),
    (TRANSACTION_RECORD, (TRANSACTION_KEY, b""), "Could not read version from value's buffer."),
    (TRANSACTION_RECORD, (TRANSACTION_KEY, transaction_value(1, {})[:9]), "Could not read record with version 0 from "),
    (TRANSACTION_RECORD, (TRANSACTION_KEY, transaction_value(9, {})), "Unknown transaction state id 9 from the tran"),
]


@pytest.mark.parametrize(("kind", "broken", "reason"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_a_record_that_cannot_be_read_has_a_line_that_says_why(
    kind: tuple[Decode, KeyAndValue], broken: KeyAndValue, reason: str, tmp_path: Path
) -> None:
    """The broken record's line contains the reason, and the next record is printed."""
    decode, sound = kind
    log = written(tmp_path, [broken, sound])
    decoder = Decoder(decode)
    _, _, _, first, _, second = as_text(log, skip_record_metadata=True, decode=decoder).lines
    assert first.startswith(f"| key: Error at offset 0, skipping. {reason}")
    assert second.startswith("| key: ")
    assert " payload: " in second
    assert decoder.failed
    records = [line for line in as_json(log, decode=Decoder(decode)) if line["type"] == "record"]
    assert records[0]["undecoded"] == first.removeprefix("| key: ")
    assert "undecoded" not in records[1]


def test_json_has_keys_and_values_as_objects(tmp_path: Path) -> None:
    member_less = [(OFFSET_KEY, OFFSET), (OFFSET_KEY, None)]
    lines = as_json(written(tmp_path, member_less), decode=Decoder(decode_group_record))
    first, second = (line for line in lines if line["type"] == "record")
    assert first["key"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 7}}
    assert first["value"] == {
        "version": "3",
        "data": {"offset": 7, "leaderEpoch": -1, "metadata": "", "commitTimestamp": NOW},
    }
    assert second["value"] is None


def test_json_has_transactions_as_objects(tmp_path: Path) -> None:
    log = written(tmp_path, [(TRANSACTION_KEY, transaction_value(1, {"t": [2, 0]}))])
    (record,) = (line for line in as_json(log, decode=Decoder(decode_transaction_record)) if line["type"] == "record")
    assert record["key"] == {"version": "0", "data": {"transactionalId": "caf\u00e9"}}
    assert record["value"]["data"]["transactionPartitions"] == [{"topic": "t", "partitionIds": [2, 0]}]
    assert record["value"]["data"]["transactionStatus"] == 1


def test_bytes_within_json_are_base_64(tmp_path: Path) -> None:
    lines = as_json(written(tmp_path, group_records()), decode=Decoder(decode_group_record))
    values = [line["value"] for line in lines if line["type"] == "record" and isinstance(line.get("value"), dict)]
    members = [member for value in values for member in value["data"].get("members", [])]
    assert {type(member["subscription"]) for member in members} == {str, dict}
    assert "AP8=" in {
        member["subscription"]["userData"] for member in members if isinstance(member["subscription"], dict)
    }


def test_markers_are_printed_as_ever(tmp_path: Path) -> None:
    marker = NewRecord(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0), NOW)
    batch = build_batch([marker], producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    dump = as_text(log_file(tmp_path, [batch]), decode=Decoder(decode_group_record))
    assert re.search(r"endTxnMarker: COMMIT coordinatorEpoch: 0$", dump.out, re.MULTILINE)
