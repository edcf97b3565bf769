"""Records of share groups (KIP-932) as we print them, beside what the newest Kafka's own tool prints of them."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.coordinator_records import share_groups
from minibroker_protocol.coordinator_records.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from minibroker_protocol.coordinator_records.versioned import encode_versioned
from minibroker_protocol.records import Record
from minibroker_storage.dump.decoders import Decoded, Decoder, decode_group_record, decode_share_state_record
from tests.kafka import jars, jvm
from tests.kafka.fixtures import or_skip
from tests.patience import PATIENCE_S
from tests.storage.coordinator_logs import KeyAndValue, written
from tests.storage.dumping import as_text

TOPIC_ID = bytes(range(240, 256))


def records_of_states() -> list[KeyAndValue]:
    """Records of `__share_group_state`."""
    place: dict[str, Any] = {"group_id": 'a "group"', "topic_id": TOPIC_ID, "partition": 3}
    snapshot, update = ShareSnapshotKey(**place), ShareUpdateKey(**place)
    batches = [
        StateBatch(first_offset=first, last_offset=first + 9, delivery_state=state, delivery_count=2)
        for first, state in ((10, 0), (20, 2), (1 << 40, 4))
    ]
    epochs: dict[str, Any] = {"snapshot_epoch": 1, "leader_epoch": 2}
    values = [
        ShareSnapshotValue(
            **epochs, state_epoch=3, start_offset=10, create_timestamp=5, write_timestamp=6, state_batches=batches
        ),
        ShareSnapshotValue(
            **epochs, state_epoch=3, start_offset=-1, create_timestamp=5, write_timestamp=6, delivery_complete_count=7
        ),
    ]
    updates = [
        ShareUpdateValue(**epochs, start_offset=-1, state_batches=batches[:1]),
        ShareUpdateValue(**epochs, start_offset=20, delivery_complete_count=10),
    ]
    return [
        *((encode_versioned(snapshot, 0), encode_versioned(each, 0)) for each in values),
        *((encode_versioned(update, 1), encode_versioned(each, 0)) for each in updates),
        (encode_versioned(snapshot, 0), None),
        (b"\x00\x02key", b"value"),
    ]


def records_of_groups() -> list[KeyAndValue]:
    """Records of share groups in `__consumer_offsets`."""
    group, member = {"group_id": "g"}, {"group_id": "g", "member_id": "m"}
    reads = share_groups.TopicPartitionsInfo(topic_id=TOPIC_ID, topic_name="t", partitions=[0, 2])
    entries: list[tuple[Any, int, Any]] = [
        (
            share_groups.ShareGroupMemberMetadataKey(**member),
            10,
            share_groups.ShareGroupMemberMetadataValue(
                rack_id=None, client_id="c", client_host="/127.0.0.1", subscribed_topic_names=["t", "u"]
            ),
        ),
        (
            share_groups.ShareGroupMetadataKey(**group),
            11,
            share_groups.ShareGroupMetadataValue(epoch=4, metadata_hash=-(1 << 60)),
        ),
        *(
            (
                share_groups.ShareGroupTargetAssignmentMetadataKey(**group),
                12,
                share_groups.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=made),
            )
            for made in (0, 1 << 40)
        ),
        (
            share_groups.ShareGroupTargetAssignmentMemberKey(**member),
            13,
            share_groups.ShareGroupTargetAssignmentMemberValue(
                topic_partitions=[share_groups.TopicPartition(topic_id=TOPIC_ID, partitions=[0, 2])]
            ),
        ),
        (
            share_groups.ShareGroupCurrentMemberAssignmentKey(**member),
            14,
            share_groups.ShareGroupCurrentMemberAssignmentValue(
                member_epoch=4,
                previous_member_epoch=3,
                state=0,
                assigned_partitions=[share_groups.TopicPartitions(topic_id=TOPIC_ID, partitions=[1])],
            ),
        ),
        (
            share_groups.ShareGroupStatePartitionMetadataKey(**group),
            15,
            share_groups.ShareGroupStatePartitionMetadataValue(
                initializing_topics=[],
                initialized_topics=[reads],
                deleting_topics=[share_groups.TopicInfo(topic_id=bytes(16), topic_name="u")],
            ),
        ),
    ]
    records: list[KeyAndValue] = []
    for key, kind, value in entries:
        named = encode_versioned(key, kind)
        records += [(named, encode_versioned(value, 0)), (named, None)]
    return records


@pytest.mark.parametrize(
    ("option", "decode", "records"),
    [
        ("--share-group-state-decoder", decode_share_state_record, records_of_states),
        ("--offsets-decoder", decode_group_record, records_of_groups),
    ],
)
def test_records_of_share_groups_are_printed_alike(
    tmp_path: Path, option: str, decode: Callable[[Record], Decoded], records: Callable[[], list[KeyAndValue]]
) -> None:
    words = or_skip(lambda: jvm.command(jars.find(version=jars.NEWEST)))
    log = written(tmp_path, records())
    tool = [*words, "org.apache.kafka.tools.DumpLogSegments", option, "--files", str(log)]
    theirs = subprocess.run(tool, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert as_text(log, decode=Decoder(decode)).out == theirs.stdout
