"""One broker as a script about dead-letter queues sees it: see `share_group_world`."""

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from minibroker_protocol.records.batch import iter_batches
from tests.kafka.share_group_world import Place, ShareWorld


class DeadLetterWorld(ShareWorld):
    """A world whose group may have dead-letter queues."""

    def queue(self, name: str) -> str:
        """The name of a queue of the group's own, as the broker wants it to begin."""
        return f"dlq.{self.topic(name)}"

    def create_queue(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic by its whole name; `_` stands for `.` in its configuration."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        (created,) = self.client("admin").ask(CreateTopicsRequest(topics=[topic]), 5).topics
        assert not created.error_code, created.error_message

    def dead_letters(self, queue: str, count: int, partition: int = 0) -> None:
        """Wait until a queue has so many records, and note them."""
        self.wait(lambda: len(self._read(queue, partition)) >= count)
        self.note(f"{queue}-{partition}", repr(self._read(queue, partition)))

    def _read(self, queue: str, partition: int) -> list[object]:
        """The offsets, keys, values and headers of a queue's records."""
        wish = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 24)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=queue, partitions=[wish])])
        (topic,) = self.client("reader").ask(request, 11).responses
        (data,) = topic.partitions
        if data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not data.records:
            return []
        return [
            (record.offset, record.key, record.value, record.headers)
            for batch in iter_batches(memoryview(bytes(data.records)))
            for record in batch
        ]

    def until_done(self, place: Place) -> None:
        """Wait until the group is done with all records of a partition, and note what its offsets are then."""
        self.wait(lambda: self._lag(place) == 0)
        self.offsets(place)

    def _lag(self, place: Place) -> int:
        (group,) = self.client("reader").ask(self.offsets_request(place), 1).groups
        return int(group.topics[0].partitions[0].lag)
