"""A transactional producer that sends requests without a client library and without sockets."""

from typing import Any, Final, Protocol

from minibroker.coordinators.transactions.transaction import Transaction
from minibroker_protocol.messages.fetch import PartitionData
from minibroker_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from minibroker_protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minibroker_protocol.records.batch import RecordBatch, iter_batches
from tests.broker.harness import Harness, batch, bytes_in

TIMEOUT_MS: Final = 60_000
FIRST_THAT_ADDS: Final = 12
"""The first version of Produce whose batches add their partitions to their transactions."""
READ_COMMITTED: Final = 1


class Asks(Protocol):
    """Anything that answers requests: a harness or a connection."""

    def ask(self, request: Any, version: int) -> Any:
        """Return the response to a request."""
        ...


def init_producer_id(
    broker: Asks,
    transactional_id: str | None = "mine",
    *,
    version: int = 5,
    timeout_ms: int = TIMEOUT_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> InitProducerIdResponse:
    """Request a producer id."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    response = broker.ask(request, version)
    assert isinstance(response, InitProducerIdResponse)
    return response


class Producer:
    """One producer, which counts its sequence numbers by partition. Its methods return error codes."""

    def __init__(
        self, broker: Asks, transactional_id: str = "mine", *, timeout_ms: int = TIMEOUT_MS, init: bool = True
    ) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        if init:
            assert self.init() == 0

    def init(self, *, version: int = 5, keeps_id: bool = False) -> int:
        """Become the only producer of the transactional id.

        With `keeps_id`, the request has the current id and epoch (KIP-360).
        """
        identity = {"producer_id": self.id, "producer_epoch": self.epoch} if keeps_id else {}
        answer = init_producer_id(
            self.broker, self.transactional_id, version=version, timeout_ms=self.timeout_ms, **identity
        )
        if answer.error_code == 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer.error_code

    def add(self, *partitions: tuple[str, int], version: int = 3) -> list[int]:
        """Add partitions to the transaction, and return the error codes in the order of the response."""
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
            ],
        )
        response = self.broker.ask(request, version)
        return [
            partition.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ]

    def batch(self, *values: bytes, place: tuple[str, int] = ("t", 0), **fields: Any) -> bytearray:
        """Return the next batch for a partition."""
        sequence = self.sequences.get(place, 0)
        identity = {"producer_id": self.id, "producer_epoch": self.epoch, "base_sequence": sequence}
        return batch(*values, **{**identity, "is_transactional": True, **fields})

    def send(
        self, *values: bytes, topic: str = "t", partition: int = 0, version: int = 11, **fields: Any
    ) -> PartitionProduceResponse:
        """Produce one batch, and return the partition's response."""
        place = (topic, partition)
        outcome = produce_in(
            self.broker, self.transactional_id, self.batch(*values, place=place, **fields), place, version
        )
        if outcome.error_code == 0:
            self.sequences[place] = self.sequences.get(place, 0) + len(values)
        return outcome

    def write(self, *values: bytes, topic: str = "t", partition: int = 0) -> int:
        """Add the partition and produce to it. Return the base offset."""
        assert set(self.add((topic, partition))) == {0}
        outcome = self.send(*values, topic=topic, partition=partition)
        assert outcome.error_code == 0, outcome.error_message
        return outcome.base_offset

    def add_offsets(self, group_id: str, *, version: int = 4) -> int:
        """Announce a commit of a group's offsets."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, group_id=group_id
        )
        return int(self.broker.ask(request, version).error_code)

    def commit_offset(
        self, group_id: str, offset: int, *, topic: str = "t", partition: int = 0, version: int = 4
    ) -> int:
        """Commit an offset of a group in the transaction."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        return int(self.broker.ask(request, version).topics[0].partitions[0].error_code)

    def write_at_once(self, *values: bytes, topic: str = "t", partition: int = 0) -> int:
        """Produce to a partition that was not added before (KIP-890). Return the base offset."""
        outcome = self.send(*values, topic=topic, partition=partition, version=FIRST_THAT_ADDS)
        assert outcome.error_code == 0, outcome.error_message
        return outcome.base_offset

    def commit(self, *, version: int = 4) -> int:
        """Commit the transaction."""
        return self.end(commit=True, version=version)

    def abort(self, *, version: int = 4) -> int:
        """Abort the transaction."""
        return self.end(commit=False, version=version)

    def end(self, *, commit: bool, version: int = 4) -> int:
        """End the transaction. From version 5 on, continue with the id and epoch in the response."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        answer = self.broker.ask(request, version)
        if answer.producer_id >= 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)


def produce_in(
    broker: Asks,
    transactional_id: str | None,
    records: bytes | bytearray,
    place: tuple[str, int] = ("t", 0),
    version: int = 11,
) -> PartitionProduceResponse:
    """Produce to one partition under a transactional id."""
    topic, partition = place
    data = PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    outcome = broker.ask(request, version).responses[0].partition_responses[0]
    assert isinstance(outcome, PartitionProduceResponse)
    return outcome


def known(harness: Harness, transactional_id: str = "mine") -> Transaction:
    """Return the coordinator's state of a transactional id, which must exist."""
    transaction = harness.services.transactions.store.get(transactional_id)
    assert transaction is not None
    return transaction


def committed_values(data: PartitionData) -> list[bytes | None]:
    """Return the values that a read_committed consumer reads from a fetched partition (Kafka's `CompletedFetch`)."""
    aborted = sorted(data.aborted_transactions or [], key=lambda each: each.first_offset)
    ignored: set[int] = set()
    values: list[bytes | None] = []
    for each in iter_batches(memoryview(bytes_in(data))):
        assert isinstance(each, RecordBatch)
        header = each.header
        while aborted and aborted[0].first_offset <= header.last_offset:
            ignored.add(aborted.pop(0).producer_id)
        if header.is_control:
            if marker_type(each) == 0:
                ignored.discard(header.producer_id)
        elif not header.is_transactional or header.producer_id not in ignored:
            values += [record.value for record in each]
    return values


def marker_type(control: RecordBatch) -> int:
    """Return 0 for an abort marker, 1 for a commit marker."""
    (record,) = control
    assert record.key is not None
    return int.from_bytes(record.key[2:4], "big")


def read_committed(harness: Harness, topic: str = "t", partition: int = 0, offset: int = 0) -> list[bytes | None]:
    """Return the committed values in a partition."""
    return committed_values(harness.fetch_one(offset, topic, partition, isolation_level=READ_COMMITTED))


def markers_in(harness: Harness, topic: str = "t", partition: int = 0) -> list[tuple[int, int, int, int]]:
    """Return (offset, producer id, epoch, type) of each marker in a log."""
    data = harness.fetch_one(0, topic, partition)
    return [
        (batch.header.base_offset, batch.header.producer_id, batch.header.producer_epoch, marker_type(batch))
        for batch in iter_batches(memoryview(bytes_in(data)))
        if isinstance(batch, RecordBatch) and batch.header.is_control
    ]
