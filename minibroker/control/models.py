"""What requests and answers hold; the OpenAPI document is made of these. Names are those of the Python methods."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from minibroker.operations.groups import GroupDescription
from minibroker.operations.payloads import Form, shown
from minibroker.operations.records import ConsumerRecord
from minibroker_storage.data_directory.names import TopicPartition

_TEN_MINUTES = 600
_HUNDRED_YEARS = 3_155_760_000

Payload = Annotated[
    Any,
    Field(
        description=(
            'A text (stored as UTF-8), null, `{"base64": "..."}` for bytes, and anything else as JSON; '
            '`{"json": ...}` says so where it would be taken for something else.'
        )
    ),
]
ReadPayload = Annotated[Any, Field(description="As `format` asks.")]
Timeout = Annotated[float, Field(ge=0, le=_TEN_MINUTES, allow_inf_nan=False, description="Patience, in seconds.")]
Count = Annotated[int, Field(ge=0, description="How many there have to be at least.")]
_Pair = Annotated[tuple[str, Payload], Strict(strict=False)]
"""JSON has lists only."""


class Body(BaseModel):
    """What a request says; a field that there is none of is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class About(BaseModel):
    """What an answer says."""

    model_config = ConfigDict(from_attributes=True)


# The broker


class BrokerInfo(About):
    """The brokers as one."""

    name: Literal["minibroker"] = "minibroker"
    version: str
    cluster_id: str
    bootstrap_servers: str = Field(description="For a client's configuration.")
    controller: int | None = Field(description="The controller's node id; null while no broker is up.")


class Status(About):
    """How it is."""

    status: Literal["ok", "down"]


class Node(About):
    """One broker."""

    node_id: int
    is_up: bool
    address: str = Field(description="HOST:PORT that it listens on.")


class Nodes(About):
    """All brokers."""

    brokers: list[Node]


class Leader(Body):
    """Who leads a partition."""

    node_id: int | None = Field(description="Null while nobody does.")


class NewLeader(Body):
    """Who is to lead a partition."""

    node_id: int = Field(description="It becomes a replica if it is none.")


# Topics


class NewTopic(Body):
    """A topic to be made."""

    name: str | None = Field(default=None, description="Its name; or give a prefix.")
    prefix: str | None = Field(
        default=None, description="Random digits are put behind it, so that nobody has heard of the topic."
    )
    partitions: int | None = Field(default=None, description="Without a number it has the broker's default.")
    replication_factor: int | None = Field(
        default=None, description="The same. A broker that is alone takes any and makes it 1."
    )
    configs: dict[str, str | int | float | bool] = Field(default={}, description="Under Kafka's names: `retention.ms`.")


class Topic(About):
    """A topic."""

    name: str
    topic_id: str = Field(description="As Kafka writes it.")
    partitions: int
    configs: dict[str, str] = Field(description="Those that differ from the broker's defaults.")
    is_internal: bool


# Records


class NewRecord(Body):
    """A record to be written."""

    value: Payload = None
    key: Payload = None
    headers: dict[str, Payload] | list[_Pair] = Field(
        default={}, description="An object, or a list of [name, value] where the order counts or names come twice."
    )
    timestamp: int | None = Field(default=None, description="ms since the epoch; null for the broker's time.")
    partition: int | None = Field(
        default=None, description="Null for the one that the key decides; without a key they take turns."
    )


class NewRecords(Body):
    """Records to be written, in their order."""

    records: list[NewRecord]
    message_format: Literal["v2", "v1", "v0"] = Field(
        default="v2", description="v0 and v1 as brokers before 0.10 and 0.11."
    )
    codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"


class Place(About):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


class Places(About):
    """Where records are, in their order."""

    records: list[Place]


class Header(About):
    """A header of a record."""

    name: str
    value: ReadPayload


class Record(About):
    """A record as a consumer would get it, and how it is stored."""

    topic: str
    partition: int
    offset: int
    timestamp: int = Field(description="ms since the epoch; -1 in format v0.")
    timestamp_type: str = Field(description="`CreateTime`, `LogAppendTime`, or `NoTimestampType`.")
    key: ReadPayload
    value: ReadPayload
    headers: list[Header]
    message_format: int = Field(description="0, 1 or 2.")
    codec: str
    producer_id: int = Field(description="-1 for a producer that is not idempotent.")

    @classmethod
    def of(cls, record: ConsumerRecord, form: Form) -> "Record":
        """A record, its bytes in one of the forms."""
        return cls(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            timestamp_type=record.timestamp_type,
            key=shown(record.key, form),
            value=shown(record.value, form),
            headers=[Header(name=name, value=shown(value, form)) for name, value in record.headers],
            message_format=record.message_format,
            codec=record.codec,
            producer_id=record.producer_id,
        )


class RecordList(About):
    """Records of a topic, partition by partition."""

    records: list[Record]

    @classmethod
    def of(cls, records: Sequence[ConsumerRecord], form: Form) -> "RecordList":
        """Records, their bytes in one of the forms."""
        return cls(records=[Record.of(each, form) for each in records])


class Expectation(Body):
    """What a record is to be like; what is not said may be anything. Of a JSON object only what is said counts."""

    value: Payload = None
    key: Payload = None
    headers: dict[str, Payload] | None = Field(default=None, description="Those that have to be there.")
    partition: int | None = None
    timeout: Timeout = 10.0


class Matching(Body):
    """As in `expect`, and where it is."""

    value: Payload = None
    key: Payload = None
    headers: dict[str, Payload] | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None


class RecordWait(Body):
    """How many records are waited for."""

    count: Count = 1
    matching: Matching | None = Field(default=None, description="Counts and returns only such.")
    timeout: Timeout = 10.0


# Groups


class Assigned(About):
    """A partition."""

    topic: str
    partition: int


class Member(About):
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: list[Assigned] | None = Field(description="Null while it waits, or when it is no consumer.")


class Group(About):
    """A group at one moment."""

    group_id: str
    type: str = Field(description="`classic` or `consumer`: the protocol that its members speak (KIP-848).")
    state: str = Field(description="As Kafka names it: `Empty`, `Stable`, `Dead`, or a step on the way to `Stable`.")
    is_stable: bool
    generation: int = Field(description="Of the type `consumer`, the epoch of the group.")
    protocol: str | None = Field(description="The assignor that the members have agreed on.")
    members: list[Member]

    @classmethod
    def of(cls, group: GroupDescription) -> "Group":
        """A group."""
        return cls(
            **{each: getattr(group, each) for each in cls.model_fields if each != "members"},
            members=[
                Member(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    partitions=None
                    if each.partitions is None
                    else [Assigned(topic=topic, partition=index) for topic, index in each.partitions],
                )
                for each in group.members
            ],
        )


class Committed(About):
    """What a group has committed for a partition."""

    topic: str
    partition: int
    offset: int


class CommittedOffsets(About):
    """What a group has committed."""

    partitions: list[Committed]

    @classmethod
    def of(cls, offsets: Mapping[TopicPartition, int]) -> "CommittedOffsets":
        """By topic and partition."""
        return cls(
            partitions=[
                Committed(topic=topic, partition=index, offset=offset)
                for (topic, index), offset in sorted(offsets.items())
            ]
        )


class PartitionLag(About):
    """How many offsets a group is behind in a partition."""

    topic: str
    partition: int
    lag: int


class Lag(About):
    """How many offsets a group is behind."""

    total: int
    partitions: list[PartitionLag]

    @classmethod
    def of(cls, lag: Mapping[TopicPartition, int]) -> "Lag":
        """By topic and partition."""
        partitions = [
            PartitionLag(topic=topic, partition=index, lag=behind) for (topic, index), behind in sorted(lag.items())
        ]
        return cls(total=sum(lag.values()), partitions=partitions)


class GroupWait(Body):
    """What a group is to be like."""

    members: int | None = Field(default=None, ge=0, description="So many of them; null for any.")
    timeout: Timeout = 10.0


# Time


class Clock(About):
    """The broker's time."""

    now_ms: int = Field(description="ms since the epoch.")


class Advance(Body):
    """How far time is to move on."""

    seconds: float = Field(ge=0, le=_HUNDRED_YEARS, allow_inf_nan=False)


class Retained(About):
    """What retention has done."""

    deleted_segments: int


class Compaction(Body):
    """What is to be compacted."""

    topic: str | None = Field(default=None, description="Has to be a compacted one; null for all of them.")


# Beginning anew


class Reset(Body):
    """How to begin anew."""

    keep_topics: bool = Field(default=False, description="Topics stay, and their offsets go on where they were.")


class NewSnapshot(Body):
    """A snapshot to be taken."""

    name: str | None = Field(default=None, min_length=1, description="To restore it by; null for a number.")
    directory: str | None = Field(
        default=None,
        description="A new one on the broker's machine; null for a temporary one that goes with the broker.",
    )


class Snapshot(About):
    """A snapshot."""

    name: str
    directory: str


class Snapshots(About):
    """The snapshots that were taken."""

    snapshots: list[Snapshot]


class Restore(Body):
    """What is to be brought back."""

    directory: str = Field(description="That of a snapshot, on the broker's machine.")


# Requests


class JournalSize(Body):
    """How much a journal keeps."""

    capacity: int = Field(default=10_000, ge=1, le=1_000_000, description="The newest so many requests are kept.")


class JournalInfo(About):
    """The journal."""

    is_kept: bool
    count: int = Field(description="How many requests have come since it was begun.")


class JournalEntry(About):
    """One request and its answer."""

    number: int
    time: int = Field(description="When it came: ms since the epoch on the broker's clock.")
    connection: str = Field(description="Both ends, the broker's first.")
    node: int = Field(description="The id of the broker that was asked.")
    client_host: str
    client_id: str | None
    api: str
    version: int
    correlation_id: int
    request: Any = Field(description="With Kafka's own field names; of records only sizes and counts.")
    response: Any = Field(description="The same; null while there is none.")
    errors: list[str] = Field(description="The errors in the response, by name.")
    duration_ms: float | None
    bytes_in: int
    bytes_out: int
    fault: Any = Field(description="The fields of the fault that has hit it; null for none.")
    failure: str | None = Field(description="Why the connection was closed over it.")


class JournalEntries(About):
    """What clients have asked and were told, oldest first."""

    count: int = Field(description="How many requests have come, also such that do not fit or are kept no longer.")
    requests: list[JournalEntry]


class RequestWait(Body):
    """Which requests are waited for. Names may have the wildcards * and ?."""

    count: Count = 1
    api: str | None = None
    client_id: str | None = None
    topic: str | None = None
    group: str | None = None
    error: str | int | None = Field(default=None, description="The name or number of an error in the answer.")
    timeout: Timeout = 10.0


# Faults


class InstalledFault(About):
    """A fault."""

    id: str
    fired: int = Field(description="How many requests it has hit.")
    fault: dict[str, Any] = Field(description="Its fields.")


class InstalledFaults(About):
    """The faults, in the order in which they were added."""

    faults: list[InstalledFault]


class FaultHits(InstalledFault):
    """A fault, and whom it has hit."""

    hits: list[JournalEntry] = Field(description="The newest 1000.")
