"""The life of a Produce and of a Fetch. Every text comes from the responses of a broker without sockets."""

from collections.abc import Generator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final

from minibroker.operations.wording import format_count
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.coordinators.transactions.producer import init_producer_id
from tests.broker.harness import Harness, Pending, batch, bytes_in, fetch_request, only_partition, values_in
from tests.drawings.lanes import Lanes
from tests.drawings.svg import Drawing

_TOPIC: Final = "orders"
_PRODUCER, _CONSUMER, _BROKER, _LOG = "producer", "consumer", "broker", "log orders-0"
_EARLIEST: Final = -2
_MAX_WAIT_MS: Final = 500


@contextmanager
def _broker() -> Generator[Harness]:
    with TemporaryDirectory() as directory:
        harness = Harness(directory)
        harness.create(_TOPIC)
        yield harness
        harness.close()


def _log(harness: Harness) -> str:
    data = harness.fetch_one(0, _TOPIC)
    return f"end {data.high_watermark}, {len(bytes_in(data))} bytes"


def _meet(lanes: Lanes, client: str, harness: Harness, api: ApiKey) -> None:
    """Draw the two requests that each client sends first."""
    lanes.step(client, _BROKER, "ApiVersions")
    (versions,) = [api_key for api_key in harness.ask(ApiVersionsRequest(), 0).api_keys if api_key.api_key == api]
    lanes.step(_BROKER, client, f"{api.name.capitalize()} v{versions.min_version} to v{versions.max_version}, ...")
    lanes.step(client, _BROKER, f"Metadata, topic {_TOPIC}")
    answer = harness.ask(MetadataRequest(topics=[MetadataRequestTopic(name=_TOPIC)]), 12)
    (node,), (topic,) = answer.brokers, answer.topics
    assert topic.partitions[0].leader_id == node.node_id
    lanes.step(_BROKER, client, f"partition 0 is led by {node.host}:{node.port}")


def produce() -> Drawing:
    """Draw a batch, the same batch again, and a batch whose predecessor is missing."""
    lanes = Lanes("The life of a produce", (_PRODUCER, _BROKER, _LOG), "the log", width=270, state_width=430)
    with _broker() as harness:
        _meet(lanes, _PRODUCER, harness, ApiKey.PRODUCE)
        lanes.step(_PRODUCER, _BROKER, "InitProducerId", _log(harness))
        producer = init_producer_id(harness, None)
        lanes.step(_BROKER, _PRODUCER, f"producer id {producer.producer_id}, epoch {producer.producer_epoch}")

        def send(*values: bytes, sequence: int) -> None:
            named = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
            before = _log(harness)
            last = sequence + len(values) - 1
            numbers = f"sequence {sequence}" + (f" to {last}" if last > sequence else "")
            lanes.step(_PRODUCER, _BROKER, f"Produce, {format_count(len(values), 'record')}, {numbers}")
            outcome = harness.produce(batch(*values, **named, base_sequence=sequence), _TOPIC)
            code = ErrorCode(outcome.error_code)
            after = _log(harness)
            if after != before:
                lanes.step(_BROKER, _LOG, f"batch at offset {outcome.base_offset}", after)
            words = code.name if code else f"offset {outcome.base_offset}"
            lanes.step(_BROKER, _PRODUCER, words, "" if after != before else f"{after}: as before", refused=bool(code))

        send(b"new", b"paid", sequence=0)
        lanes.between("The response is lost. The producer sends the same batch again.")
        send(b"new", b"paid", sequence=0)
        lanes.between("A later batch overtakes the one before it.")
        send(b"sent", sequence=5)
    return lanes.drawing()


def fetch() -> Drawing:
    """Draw a consumer that reads existing records, waits for the next one, and waits until a timeout."""
    lanes = Lanes("The life of a fetch", (_CONSUMER, _BROKER, _PRODUCER), "the log", width=270, state_width=250)
    with _broker() as harness:
        harness.produce(batch(b"new", b"paid"), _TOPIC)
        _meet(lanes, _CONSUMER, harness, ApiKey.FETCH)
        lanes.step(_CONSUMER, _BROKER, "ListOffsets, earliest", _log(harness))
        partition = ListOffsetsPartition(partition_index=0, timestamp=_EARLIEST)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=_TOPIC, partitions=[partition])])
        (earliest,) = harness.ask(request, 6).topics[0].partitions
        lanes.step(_BROKER, _CONSUMER, f"offset {earliest.offset}")

        lanes.step(_CONSUMER, _BROKER, f"Fetch from offset {earliest.offset}, a new session")
        answer = harness.fetch((_TOPIC, 0, earliest.offset), session_epoch=0)
        session, epoch = answer.session_id, 1
        assert session
        position = _received(lanes, answer)

        def wait() -> Pending:
            nonlocal epoch
            pending = harness.send(
                fetch_request((_TOPIC, 0, position), session_id=session, session_epoch=epoch, max_wait_ms=_MAX_WAIT_MS),
                12,
            )
            assert isinstance(pending, Pending)
            lanes.step(
                _CONSUMER, _BROKER, f"Fetch from offset {position}, waits up to {_MAX_WAIT_MS} ms", _log(harness)
            )
            epoch += 1
            return pending

        waiting = wait()
        lanes.step(_PRODUCER, _BROKER, "Produce, 1 record")
        offset = harness.produce(batch(b"sent"), _TOPIC).base_offset
        lanes.step(_BROKER, _PRODUCER, f"offset {offset}", _log(harness))
        position = _received(lanes, waiting.response)
        waiting = wait()
        harness.clock.advance(_MAX_WAIT_MS)
        lanes.between(f"{_MAX_WAIT_MS} ms pass without a new record.")
        assert waiting.response.responses == []
        lanes.step(_BROKER, _CONSUMER, "nothing: no partition has changed")
        lanes.step(_CONSUMER, _BROKER, f"OffsetCommit, group billing, offset {position}")
        committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=position, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=_TOPIC, partitions=[committed])
        (committed_partition,) = (
            harness.ask(OffsetCommitRequest(group_id="billing", topics=[topic]), 8).topics[0].partitions
        )
        lanes.step(_BROKER, _CONSUMER, ErrorCode(committed_partition.error_code).name)
    return lanes.drawing()


def _received(lanes: Lanes, answer: Any) -> int:
    """Draw the records of a response, and return the offset after them."""
    records = values_in(only_partition(answer).records)
    values = ", ".join(f"{offset}: {(value or b'').decode()}" for offset, value in records)
    lanes.step(_BROKER, _CONSUMER, f"{format_count(len(records), 'record')}: {values}")
    return records[-1][0] + 1
