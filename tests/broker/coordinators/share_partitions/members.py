"""Members of a share group "g" of a broker without sockets."""

from collections.abc import Iterable, Sequence
from typing import Any

from minibroker.coordinators.share_state.state import UNKNOWN, SharePartitionKey
from minibroker.server.requests.session import Session
from minibroker_protocol.messages.share_records import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from tests.broker.harness import Harness, values_in
from tests.broker.logs.world import topic_of

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Acks = Sequence[tuple[int, int, int]]


def begin(harness: Harness, topic: str = "t", *, group: str = "g", start: int = 0) -> None:
    """Initialize the states of a topic's partitions, like the group coordinator for the first member of a group."""
    for partition in topic_of(harness, topic).partitions:
        key = SharePartitionKey(group, partition.topic.id, partition.index)
        assert harness.services.share_states.initialize(key, 0, start).code == 0


def begin_unknown(harness: Harness, topic: str = "t") -> None:
    """Initialize states without a start offset, so that the leader chooses it."""
    begin(harness, topic, start=UNKNOWN)


def batches_of(acks: Acks) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=[kind]) for a, b, kind in acks]


class ShareMember:
    """One member with its own connection."""

    def __init__(self, harness: Harness, name: str = "m", group: str = "g") -> None:
        self.harness = harness
        self.name = name
        self.group = group
        self.epoch = 0
        self.connection: Session = harness.session()

    def request(
        self, *partitions: tuple[str, int], acks: Acks = (), forgotten: Iterable[tuple[str, int]] = (), **fields: Any
    ) -> ShareFetchRequest:
        """Return a ShareFetch for some partitions. `acks` acknowledge records of the first one."""
        topics: dict[bytes, FetchTopic] = {}
        for number, (name, index) in enumerate(partitions):
            topic_id = topic_of(self.harness, name).id
            topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id, partitions=[]))
            acknowledged = batches_of(acks) if number == 0 else []
            topic.partitions.append(FetchPartition(partition_index=index, acknowledgement_batches=acknowledged))
        sizes = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        all_fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "topics": list(topics.values()),
            "forgotten_topics_data": [
                ForgottenTopic(topic_id=topic_of(self.harness, name).id, partitions=[index])
                for name, index in forgotten
            ],
            **sizes,
            **fields,
        }
        return ShareFetchRequest(**all_fields)

    def send(self, request: Any, version: int = 2) -> Any:
        """Send a request over this member's connection, and return the response or a `Pending`."""
        return self.harness.send(request, version, self.connection)

    def fetch(self, *partitions: tuple[str, int], version: int = 2, **fields: Any) -> ShareFetchResponse:
        """Fetch in this member's session, and advance its epoch."""
        response = self.send(self.request(*partitions, **fields), version)
        assert isinstance(response, ShareFetchResponse), response
        assert response.error_code == 0, response.error_message
        self.epoch += 1
        return response

    def one(self, *partitions: tuple[str, int], **fields: Any) -> PartitionData:
        """Fetch, and return the only partition in the response."""
        (topic,) = self.fetch(*partitions, **fields).responses
        (data,) = topic.partitions
        return data

    def acknowledge(self, acks: Acks, *, topic: str = "t", index: int = 0, **fields: Any) -> ShareAcknowledgeResponse:
        """Acknowledge without fetching."""
        partition = AcknowledgePartition(partition_index=index, acknowledgement_batches=batches_of(acks))
        all_fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "topics": [AcknowledgeTopic(topic_id=topic_of(self.harness, topic).id, partitions=[partition])],
            **fields,
        }
        response = self.send(ShareAcknowledgeRequest(**all_fields))
        assert isinstance(response, ShareAcknowledgeResponse)
        if not response.error_code:
            self.epoch += 1
        return response

    def acknowledged(self, acks: Acks, **fields: Any) -> int:
        """Acknowledge, and return the partition's error code."""
        response = self.acknowledge(acks, **fields)
        assert response.error_code == 0
        (topic,) = response.responses
        (data,) = topic.partitions
        return data.error_code


def acquired(data: PartitionData) -> list[tuple[int, int, int]]:
    """Return (first offset, last offset, delivery count) of each acquired range."""
    return [(records.first_offset, records.last_offset, records.delivery_count) for records in data.acquired_records]


def values(data: PartitionData) -> list[bytes | None]:
    """Return the values of the records."""
    return [value for _, value in values_in(data.records)]
