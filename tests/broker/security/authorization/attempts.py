"""Requests of a client without rights, one for each way in which an API names a resource."""

from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Final, NamedTuple

from minibroker.cluster.routing.routes import ROUTES
from minibroker_protocol.messages import messages_of
from minibroker_protocol.primitives import ZERO_UUID, WireType
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.schema import fields_of

PRINCIPAL: Final = "User:bob"
NODE: Final = 1
_BATCH: Final = bytes(build_batch([NewRecord(None, b"a", 1_700_000_000_000)]))
_TRANSACTIONAL: Final = bytes(
    build_batch(
        [NewRecord(None, b"a", 1_700_000_000_000)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
)
_ROUTES: Final = {route.message: route for route in ROUTES}


class Names(NamedTuple):
    """The resource names of a request, which can exist or not."""

    topic: str
    topic_id: bytes
    group: str
    transactional_id: str


class Attempt(NamedTuple):
    """A request: the API, its version, and the fields that are not defaults."""

    api: str
    version: int
    fields: dict[str, Any]
    note: str = ""

    @property
    def title(self) -> str:
        """The name of the test case."""
        return f"{self.api}-{self.version}" + (f"-{self.note}" if self.note else "")

    @property
    def is_served(self) -> bool:
        """Whether the dispatch table has this version."""
        route = _ROUTES.get(self.api)
        return route is not None and route.first <= self.version <= route.last

    def request(self) -> Any:
        """The request."""
        return _make(messages_of(_ROUTES[self.api].key).request, self.fields)


def _make(cls: type[Any], values: dict[str, Any]) -> Any:
    made: dict[str, Any] = {}
    for field in fields_of(cls):
        if field.name in values:
            made[field.name] = _value(field.kind, values[field.name])
        elif not _has_default(cls, field.name):
            kind = field.kind
            made[field.name] = [] if field.is_array else _NOTHING[kind.name] if isinstance(kind, WireType) else None
    return cls(**made)


def _has_default(cls: type[Any], name: str) -> bool:
    (field,) = (each for each in dataclass_fields(cls) if each.name == name)
    return field.default is not MISSING or field.default_factory is not MISSING


def _value(kind: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(kind, each) for each in value]
    return _make(kind, value) if isinstance(value, dict) else value


_NOTHING: Final[dict[str, Any]] = {
    **dict.fromkeys(("INT8", "INT16", "INT32", "INT64", "UINT16", "UINT32"), 0),
    "BOOLEAN": False,
    "STRING": "",
    "NULLABLE_STRING": None,
    "BYTES": b"",
    "NULLABLE_BYTES": None,
    "UUID": ZERO_UUID,
    "FLOAT64": 0.0,
}


_OF_SHARE_STATES: Final = (
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
)


def attempts(names: Names) -> list[Attempt]:
    """Return all attempts."""
    topic, topic_id, group, transactional_id = names
    producer = {"producer_id": 1, "producer_epoch": 0}
    partition = {"partition_index": 0}
    commit = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    fetched = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    fetch = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1000}
    produce = {"acks": -1, "timeout_ms": 1000}
    share = {"group_id": group, "member_id": "m", "topics": [{"topic_id": topic_id, "partitions": [partition]}]}
    acl = {
        "resource_type": 2,
        "resource_name": topic,
        "principal": PRINCIPAL,
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    acl_filter = {"resource_type_filter": 2, "resource_name_filter": topic, "operation": 1, "permission_type": 1}

    def produced(records: bytes) -> dict[str, Any]:
        return {"topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]}

    def configs(**fields: Any) -> dict[str, Any]:
        return {
            "resources": [
                {"resource_type": kind, "resource_name": name, **fields} for kind, name in ((2, topic), (4, str(NODE)))
            ]
        }

    return [
        Attempt("Produce", 9, {**produce, **produced(_BATCH)}),
        Attempt(
            "Produce", 9, {**produce, **produced(_TRANSACTIONAL), "transactional_id": transactional_id}, "transactional"
        ),
        Attempt("Produce", 9, {**produce, **produced(_TRANSACTIONAL)}, "transactional-without-id"),
        Attempt("Fetch", 12, {**fetch, "topics": [{"topic": topic, "partitions": [fetched]}]}),
        Attempt("Fetch", 13, {**fetch, "topics": [{"topic_id": topic_id, "partitions": [fetched]}]}, "by-id"),
        Attempt(
            "Fetch", 12, {**fetch, "replica_id": 2, "topics": [{"topic": topic, "partitions": [fetched]}]}, "replica"
        ),
        Attempt(
            "ListOffsets",
            7,
            {"replica_id": -1, "topics": [{"name": topic, "partitions": [{**partition, "timestamp": -1}]}]},
        ),
        Attempt("Metadata", 12, {"topics": None}, "all"),
        Attempt("Metadata", 9, {"topics": [{"name": topic}], "include_topic_authorized_operations": True}),
        Attempt(
            "Metadata",
            9,
            {
                "topics": [{"name": topic}],
                "allow_auto_topic_creation": True,
                "include_cluster_authorized_operations": True,
            },
            "creating",
        ),
        Attempt("Metadata", 12, {"topics": [{"name": None, "topic_id": topic_id}]}, "by-id"),
        Attempt("LeaderAndIsr", 4, {}),
        Attempt("StopReplica", 3, {}),
        Attempt("UpdateMetadata", 6, {}),
        Attempt("ControlledShutdown", 3, {"broker_id": NODE}),
        Attempt(
            "OffsetCommit",
            8,
            {
                "group_id": group,
                "generation_id_or_member_epoch": -1,
                "topics": [{"name": topic, "partitions": [commit]}],
            },
        ),
        Attempt("OffsetFetch", 1, {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}),
        Attempt("OffsetFetch", 5, {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}),
        Attempt(
            "OffsetFetch", 8, {"groups": [{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}]}
        ),
        Attempt("OffsetFetch", 8, {"groups": [{"group_id": group, "topics": None}]}, "all"),
        Attempt("FindCoordinator", 3, {"key": group, "key_type": 0}, "group"),
        Attempt("FindCoordinator", 3, {"key": transactional_id, "key_type": 1}, "transactional-id"),
        Attempt("FindCoordinator", 4, {"coordinator_keys": [group], "key_type": 0}, "group"),
        Attempt("FindCoordinator", 4, {"coordinator_keys": [transactional_id], "key_type": 1}, "transactional-id"),
        Attempt("JoinGroup", 5, {"group_id": group, "session_timeout_ms": 10_000, "protocol_type": "consumer"}),
        Attempt("Heartbeat", 3, {"group_id": group, "generation_id": 1, "member_id": "m"}),
        Attempt("LeaveGroup", 3, {"group_id": group, "members": [{"member_id": "m"}]}),
        Attempt(
            "SyncGroup", 5, {"group_id": group, "member_id": "m", "protocol_type": "consumer", "protocol_name": "range"}
        ),
        Attempt("DescribeGroups", 5, {"groups": [group], "include_authorized_operations": True}),
        Attempt("ListGroups", 4, {}),
        Attempt(
            "CreateTopics",
            7,
            {"timeout_ms": 1000, "topics": [{"name": topic, "num_partitions": 1, "replication_factor": 1}]},
        ),
        Attempt("DeleteTopics", 5, {"timeout_ms": 1000, "topic_names": [topic]}),
        Attempt("DeleteTopics", 6, {"timeout_ms": 1000, "topics": [{"name": topic}]}),
        Attempt("DeleteTopics", 6, {"timeout_ms": 1000, "topics": [{"name": None, "topic_id": topic_id}]}, "by-id"),
        Attempt(
            "DeleteRecords",
            2,
            {"timeout_ms": 1000, "topics": [{"name": topic, "partitions": [{**partition, "offset": 0}]}]},
        ),
        Attempt(
            "InitProducerId",
            4,
            {
                "transactional_id": transactional_id,
                "transaction_timeout_ms": 1000,
                "producer_id": -1,
                "producer_epoch": -1,
            },
        ),
        Attempt("InitProducerId", 4, {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}, "idempotent"),
        Attempt(
            "OffsetForLeaderEpoch",
            4,
            {"topics": [{"topic": topic, "partitions": [{"partition": 0, "current_leader_epoch": -1}]}]},
        ),
        Attempt(
            "AddPartitionsToTxn",
            3,
            {
                "v3_and_below_transactional_id": transactional_id,
                "v3_and_below_producer_id": 1,
                "v3_and_below_topics": [{"name": topic, "partitions": [0]}],
            },
        ),
        Attempt(
            "AddPartitionsToTxn",
            4,
            {
                "transactions": [
                    {"transactional_id": transactional_id, **producer, "topics": [{"name": topic, "partitions": [0]}]}
                ]
            },
        ),
        Attempt("AddOffsetsToTxn", 3, {"transactional_id": transactional_id, **producer, "group_id": group}),
        Attempt("EndTxn", 3, {"transactional_id": transactional_id, **producer}),
        Attempt(
            "WriteTxnMarkers", 1, {"markers": [{**producer, "topics": [{"name": topic, "partition_indexes": [0]}]}]}
        ),
        Attempt(
            "TxnOffsetCommit",
            3,
            {
                "transactional_id": transactional_id,
                "group_id": group,
                **producer,
                "topics": [{"name": topic, "partitions": [commit]}],
            },
        ),
        Attempt("DescribeAcls", 3, acl_filter),
        Attempt("CreateAcls", 3, {"creations": [acl]}),
        Attempt("DeleteAcls", 3, {"filters": [acl_filter]}),
        Attempt("DescribeConfigs", 4, configs(configuration_keys=None)),
        Attempt("AlterConfigs", 2, configs(configs=[])),
        Attempt("IncrementalAlterConfigs", 1, configs(configs=[])),
        Attempt(
            "AlterReplicaLogDirs", 2, {"dirs": [{"path": "/somewhere", "topics": [{"name": topic, "partitions": [0]}]}]}
        ),
        Attempt("DescribeLogDirs", 4, {"topics": [{"topic": topic, "partitions": [0]}]}),
        Attempt(
            "CreatePartitions", 3, {"timeout_ms": 1000, "topics": [{"name": topic, "count": 9, "assignments": None}]}
        ),
        Attempt("DeleteGroups", 2, {"groups_names": [group]}),
        Attempt("ElectLeaders", 2, {"topic_partitions": [{"topic": topic, "partitions": [0]}]}),
        Attempt(
            "AlterPartitionReassignments",
            0,
            {"topics": [{"name": topic, "partitions": [{**partition, "replicas": [NODE]}]}]},
        ),
        Attempt("ListPartitionReassignments", 0, {"topics": None}),
        Attempt("OffsetDelete", 0, {"group_id": group, "topics": [{"name": topic, "partitions": [partition]}]}),
        Attempt("DescribeClientQuotas", 1, {}),
        Attempt(
            "AlterClientQuotas",
            1,
            {
                "entries": [
                    {
                        "entity": [{"entity_type": "client-id", "entity_name": "nobody"}],
                        "ops": [{"key": "producer_byte_rate", "value": 1.0}],
                    }
                ]
            },
        ),
        Attempt("DescribeUserScramCredentials", 0, {"users": [{"name": "bob"}]}),
        Attempt("AlterUserScramCredentials", 0, {"deletions": [{"name": "bob", "mechanism": 1}]}),
        Attempt("DescribeQuorum", 1, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [partition]}]}),
        Attempt("UpdateFeatures", 1, {"feature_updates": [{"feature": "metadata.version", "max_version_level": 7}]}),
        Attempt("DescribeCluster", 1, {"include_cluster_authorized_operations": True}),
        Attempt("DescribeProducers", 0, {"topics": [{"name": topic, "partition_indexes": [0]}]}),
        Attempt("UnregisterBroker", 0, {"broker_id": 7}),
        Attempt("DescribeTransactions", 0, {"transactional_ids": [transactional_id]}),
        Attempt("ListTransactions", 0, {}),
        Attempt(
            "ConsumerGroupHeartbeat",
            0,
            {
                "group_id": group,
                "member_id": "",
                "member_epoch": 0,
                "rebalance_timeout_ms": 1000,
                "subscribed_topic_names": [topic],
                "topic_partitions": [],
            },
        ),
        Attempt("ConsumerGroupDescribe", 0, {"group_ids": [group]}),
        Attempt("ListConfigResources", 0, {}),
        Attempt("DescribeTopicPartitions", 0, {"topics": [{"name": topic}]}),
        Attempt("DescribeTopicPartitions", 0, {"topics": []}, "all"),
        Attempt(
            "ShareGroupHeartbeat",
            1,
            {"group_id": group, "member_id": "m", "member_epoch": 0, "subscribed_topic_names": [topic]},
        ),
        Attempt("ShareGroupDescribe", 1, {"group_ids": [group]}),
        Attempt(
            "StreamsGroupHeartbeat",
            0,
            {
                "group_id": group,
                "member_id": "m",
                "member_epoch": 0,
                "rebalance_timeout_ms": 1000,
                "process_id": "p",
                "topology": {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": [topic]}]},
                "active_tasks": [],
                "standby_tasks": [],
                "warmup_tasks": [],
            },
        ),
        Attempt("StreamsGroupDescribe", 0, {"group_ids": [group]}),
        Attempt(
            "StreamsGroupTopologyDescriptionUpdate",
            0,
            {"group_id": group, "member_id": "m", "topology_epoch": 0, "topology_description": {}},
        ),
        Attempt("ShareFetch", 2, share | {"share_session_epoch": 0, "max_records": 1, "max_bytes": 1000}),
        Attempt("ShareAcknowledge", 2, share | {"share_session_epoch": 1}),
        *(
            Attempt(api, 0, {"group_id": group, "topics": [{"topic_id": topic_id, "partitions": [{"partition": 0}]}]})
            for api in _OF_SHARE_STATES
        ),
        Attempt("AddRaftVoter", 0, {"cluster_id": None, "timeout_ms": 1000, "voter_id": 7}),
        Attempt("RemoveRaftVoter", 0, {"cluster_id": None, "voter_id": 7}),
        Attempt("AlterPartition", 3, {"broker_id": NODE}),
        Attempt("Envelope", 0, {}),
        Attempt("AllocateProducerIds", 0, {"broker_id": NODE}),
        Attempt(
            "DescribeShareGroupOffsets",
            1,
            {"groups": [{"group_id": group, "topics": [{"topic_name": topic, "partitions": [0]}]}]},
        ),
        Attempt("DescribeShareGroupOffsets", 1, {"groups": [{"group_id": group, "topics": None}]}, "all"),
        Attempt(
            "AlterShareGroupOffsets",
            0,
            {
                "group_id": group,
                "topics": [{"topic_name": topic, "partitions": [{"partition_index": 0, "start_offset": 0}]}],
            },
        ),
        Attempt("DeleteShareGroupOffsets", 0, {"group_id": group, "topics": [{"topic_name": topic}]}),
        Attempt("UnregisterController", 0, {"controller_id": 7}),
    ]


def codes_in(message: Any, path: str = "", ending: str = "error_code") -> list[tuple[str, int]]:
    """Return every field of a response with this ending, by default error codes, with its path, sorted."""
    found: list[tuple[str, int]] = []
    if isinstance(message, list):
        for each in message:
            found += codes_in(each, path, ending)
    elif is_dataclass(message):
        for field in dataclass_fields(message):
            value = getattr(message, field.name)
            where = f"{path}.{field.name}" if path else field.name
            if field.name.endswith(ending):
                found.append((where, value))
            found += codes_in(value, where, ending)
    return sorted(found)


def visible(message: Any, names: Names) -> Any:
    """Return the contents of a response, without the names from the client's own request."""
    own = {name: f"<{index}>" for index, name in enumerate(names)}
    if isinstance(message, list):
        return [visible(each, names) for each in message]
    if is_dataclass(message):
        return {field.name: visible(getattr(message, field.name), names) for field in dataclass_fields(message)}
    if isinstance(message, memoryview):
        return bytes(message)
    return own.get(message, message) if isinstance(message, str | bytes) else message
