"""Topics of a broker, whichever it is: they are made, and their records are read."""

from collections.abc import Iterator

from minibroker_protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from minibroker_protocol.records.batch import RecordBatch, iter_batches
from tests.broker.coordinators.transactions.producer import Asks
from tests.broker.harness import bytes_in, fetch_request, only_partition
from tests.kafka.cluster_requests import offsets
from tests.patience import eventually


def create_topic(broker: Asks, name: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic; `_` stands for `.` in its configuration.

    Kafka says that a topic is there before its partitions are, which are waited for.
    """
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    (created,) = broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 5).topics
    assert created.error_code == 0, created.error_message
    asked = offsets(name, *range(partitions))
    eventually(lambda: not any(each.error_code for each in broker.ask(asked, 5).topics[0].partitions))


def batches_of(broker: Asks, name: str, partition: int = 0) -> Iterator[RecordBatch]:
    """All batches of a short log but markers of transactions; none of a topic that is not there."""
    asked = fetch_request((name, partition, 0), max_wait_ms=0, min_bytes=0, partition_max_bytes=1 << 24)
    data = only_partition(broker.ask(asked, 11))
    for batch in iter_batches(memoryview(b"" if data.error_code else bytes_in(data))):
        if isinstance(batch, RecordBatch) and not batch.header.is_control:
            yield batch
