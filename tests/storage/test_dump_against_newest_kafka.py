"""Dumped records of share groups and streams groups, compared with the output of Kafka 4.4's tool."""

from collections.abc import Callable
from functools import partial
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
from tests.programs import run_to_success
from tests.storage.coordinator_logs import KeyAndValue, record_and_tombstone, written
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
    record = partial(record_and_tombstone, share_groups)
    client: dict[str, Any] = {"rack_id": None, "client_id": "c", "client_host": "/127.0.0.1"}
    target = share_groups.TopicPartition(topic_id=TOPIC_ID, partitions=[0, 2])
    assigned = share_groups.TopicPartitions(topic_id=TOPIC_ID, partitions=[1])
    current: dict[str, Any] = {"member_epoch": 4, "previous_member_epoch": 3, "state": 0}
    states: dict[str, Any] = {
        "initializing_topics": [],
        "initialized_topics": [share_groups.TopicPartitionsInfo(topic_id=TOPIC_ID, topic_name="t", partitions=[0, 2])],
        "deleting_topics": [share_groups.TopicInfo(topic_id=bytes(16), topic_name="u")],
    }
    times = {"assignment_epoch": 4, "assignment_timestamp": 0}
    return [
        *record("ShareGroupMemberMetadata", 10, member, **client, subscribed_topic_names=["t", "u"]),
        *record("ShareGroupMetadata", 11, group, epoch=4, metadata_hash=-(1 << 60)),
        *record("ShareGroupTargetAssignmentMetadata", 12, group, **times),
        *record("ShareGroupTargetAssignmentMetadata", 12, group, **{**times, "assignment_timestamp": 1 << 40}),
        *record("ShareGroupTargetAssignmentMember", 13, member, topic_partitions=[target]),
        *record("ShareGroupCurrentMemberAssignment", 14, member, **current, assigned_partitions=[assigned]),
        *record("ShareGroupStatePartitionMetadata", 15, group, **states),
    ]


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
    record = partial(record_and_tombstone, streams_groups)
    version: dict[str, Any] = {"epoch": 4, "metadata_hash": 1 << 60}
    client: dict[str, Any] = {
        "rack_id": None,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 300_000,
        "topology_epoch": 2,
        "process_id": "p",
        "client_tags": [streams_groups.KeyValue(key="zone", value="z")],
    }
    endpoint = streams_groups.Endpoint(host="here", port=65_535)
    current: dict[str, Any] = {
        "member_epoch": -2,
        "previous_member_epoch": 3,
        "state": 2,
        "active_tasks": active,
        "standby_tasks": copies,
        "warmup_tasks": copies,
        "active_tasks_pending_revocation": active,
        "standby_tasks_pending_revocation": copies,
        "warmup_tasks_pending_revocation": [],
    }
    failed = {"stored_description_topology_epoch": -2, "failed_description_topology_epoch": 3}
    assigned: dict[str, Any] = {"active_tasks": targets, "standby_tasks": targets, "warmup_tasks": []}
    return [
        *record("StreamsGroupMetadata", 17, group, **version),
        *record(
            "StreamsGroupMetadata", 17, group, **version, validated_topology_epoch=2, last_assignment_configs=configs
        ),
        *record("StreamsGroupMetadata", 17, group, **version, **failed),
        *record("StreamsGroupMemberMetadata", 19, member, **client, instance_id=None, user_endpoint=None),
        *record("StreamsGroupMemberMetadata", 19, member, **client, instance_id="i", user_endpoint=endpoint),
        *record("StreamsGroupTargetAssignmentMetadata", 20, group, assignment_epoch=4),
        *record("StreamsGroupTargetAssignmentMetadata", 20, group, assignment_epoch=4, assignment_timestamp=1 << 40),
        *record("StreamsGroupTargetAssignmentMember", 21, member, **assigned),
        *record("StreamsGroupCurrentMemberAssignment", 22, member, **current),
        *record("StreamsGroupTopology", 23, group, epoch=2, subtopologies=[subtopology]),
    ]


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
    expected = run_to_success(tool)
    assert as_text(log, decode=Decoder(decode)).out == expected.stdout
