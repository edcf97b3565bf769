"""Dumped records of share groups and streams groups, compared with the output of Kafka 4.4's tool."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.coordinator_records import share_groups, streams_groups
from minibroker_protocol.coordinator_records.share_groups import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from minibroker_protocol.coordinator_records.versioned import encode_versioned
from minibroker_protocol.records.record import Record
from minibroker_storage.dump.decoders import Decoded, Decoder, decode_group_record, decode_share_state_record
from tests.kafka import jars, jvm
from tests.kafka.fixtures import or_skip
from tests.patience import PATIENCE_S
from tests.storage.coordinator_logs import KeyAndValue, written
from tests.storage.dumping import as_text

TOPIC_ID = bytes(range(240, 256))
pytestmark = pytest.mark.toolchain


def records_of_states() -> list[KeyAndValue]:
    """Return records of `__share_group_state`."""
    ids: dict[str, Any] = {"group_id": 'a "group"', "topic_id": TOPIC_ID, "partition": 3}
    snapshot, update = ShareSnapshotKey(**ids), ShareUpdateKey(**ids)
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
        *((encode_versioned(snapshot, 0), encode_versioned(value, 0)) for value in values),
        *((encode_versioned(update, 1), encode_versioned(value, 0)) for value in updates),
        (encode_versioned(snapshot, 0), None),
        (b"\x00\x02key", b"value"),
    ]


def records_of_groups() -> list[KeyAndValue]:
    """Return records of share groups in `__consumer_offsets`."""
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
                share_groups.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=file),
            )
            for file in (0, 1 << 40)
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
    return _encoded(entries)


def _encoded(entries: list[tuple[Any, int, Any]]) -> list[KeyAndValue]:
    """Encode records, each followed by a tombstone."""
    records: list[KeyAndValue] = []
    for key, kind, value in entries:
        named = encode_versioned(key, kind)
        records += [(named, encode_versioned(value, 0)), (named, None)]
    return records


def _metadata(**fields: Any) -> streams_groups.StreamsGroupMetadataValue:
    return streams_groups.StreamsGroupMetadataValue(epoch=4, metadata_hash=1 << 60, **fields)


def records_of_streams() -> list[KeyAndValue]:
    """Return records of streams groups in `__consumer_offsets`."""
    group, member = {"group_id": "g"}, {"group_id": "g", "member_id": "m"}
    configs = [streams_groups.LastAssignmentConfig(key="num.standby.replicas", value="1")]
    targets = [streams_groups.TargetTaskIds(subtopology_id="0", partitions=[0, 2])]
    active = [streams_groups.TaskIds(subtopology_id="0", partitions=[0, 2], assignment_epochs=[3, 4])]
    copies = [streams_groups.TaskIds(subtopology_id="1", partitions=[1])]
    info = streams_groups.TopicInfo(
        name="changelog",
        partitions=0,
        replication_factor=-1,
        topic_configs=[streams_groups.TopicConfig(key="cleanup.policy", value="compact")],
    )
    subtopology = streams_groups.Subtopology(
        subtopology_id="0",
        source_topics=["t"],
        source_topic_regex=[],
        state_changelog_topics=[info],
        repartition_sink_topics=["r"],
        repartition_source_topics=[],
        copartition_groups=[
            streams_groups.CopartitionGroup(source_topics=[0], source_topic_regex=[], repartition_source_topics=[])
        ],
    )
    metadata = [
        _metadata(),
        _metadata(validated_topology_epoch=2, last_assignment_configs=configs),
        _metadata(stored_description_topology_epoch=-2, failed_description_topology_epoch=3),
    ]
    assigned = [streams_groups.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=4)]
    assigned.append(
        streams_groups.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=1 << 40)
    )
    members = [
        streams_groups.StreamsGroupMemberMetadataValue(
            instance_id=instance,
            rack_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=300_000,
            topology_epoch=2,
            process_id="p",
            user_endpoint=endpoint,
            client_tags=[streams_groups.KeyValue(key="zone", value="z")],
        )
        for instance, endpoint in ((None, None), ("i", streams_groups.Endpoint(host="here", port=65_535)))
    ]
    entries: list[tuple[Any, int, Any]] = [
        *((streams_groups.StreamsGroupMetadataKey(**group), 17, each) for each in metadata),
        *((streams_groups.StreamsGroupMemberMetadataKey(**member), 19, each) for each in members),
        *((streams_groups.StreamsGroupTargetAssignmentMetadataKey(**group), 20, each) for each in assigned),
        (
            streams_groups.StreamsGroupTargetAssignmentMemberKey(**member),
            21,
            streams_groups.StreamsGroupTargetAssignmentMemberValue(
                active_tasks=targets, standby_tasks=targets, warmup_tasks=[]
            ),
        ),
        (
            streams_groups.StreamsGroupCurrentMemberAssignmentKey(**member),
            22,
            streams_groups.StreamsGroupCurrentMemberAssignmentValue(
                member_epoch=-2,
                previous_member_epoch=3,
                state=2,
                active_tasks=active,
                standby_tasks=copies,
                warmup_tasks=copies,
                active_tasks_pending_revocation=active,
                standby_tasks_pending_revocation=copies,
                warmup_tasks_pending_revocation=[],
            ),
        ),
        (
            streams_groups.StreamsGroupTopologyKey(**group),
            23,
            streams_groups.StreamsGroupTopologyValue(epoch=2, subtopologies=[subtopology]),
        ),
    ]
    return _encoded(entries)


@pytest.mark.parametrize(
    ("option", "decode", "records"),
    [
        ("--share-group-state-decoder", decode_share_state_record, records_of_states),
        ("--offsets-decoder", decode_group_record, records_of_groups),
        ("--offsets-decoder", decode_group_record, records_of_streams),
    ],
)
def test_records_of_share_groups_and_streams_groups_are_printed_alike(
    tmp_path: Path, option: str, decode: Callable[[Record], Decoded], records: Callable[[], list[KeyAndValue]]
) -> None:
    words = or_skip(lambda: jvm.command(jars.find(version=jars.NEWEST)))
    log = written(tmp_path, records())
    tool = [*words, "org.apache.kafka.tools.DumpLogSegments", option, "--files", str(log)]
    expected = subprocess.run(tool, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert as_text(log, decode=Decoder(decode)).out == expected.stdout
