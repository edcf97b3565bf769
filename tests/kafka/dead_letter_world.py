"""One broker as a script about dead-letter queues sees it: see `share_group_world`."""

from tests.kafka.share_group_world import Place, ShareWorld
from tests.kafka.topics import batches_of, create_topic


class DeadLetterWorld(ShareWorld):
    """A world whose group may have dead-letter queues."""

    def queue(self, name: str) -> str:
        """The name of a queue of the group's own, as the broker wants it to begin."""
        return f"dlq.{self.topic(name)}"

    def create_queue(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic by its whole name; `_` stands for `.` in its configuration."""
        create_topic(self.client("admin"), name, partitions, **configs)

    def dead_letters(self, queue: str, count: int, partition: int = 0) -> None:
        """Wait until a queue has so many records, and note them."""
        self.wait(lambda: len(self._read(queue, partition)) >= count)
        self.note(f"{queue}-{partition}", repr(self._read(queue, partition)))

    def _read(self, queue: str, partition: int) -> list[object]:
        """The offsets, keys, values and headers of a queue's records."""
        return [
            (record.offset, record.key, record.value, record.headers)
            for batch in batches_of(self.client("reader"), queue, partition)
            for record in batch
        ]

    def until_done(self, place: Place) -> None:
        """Wait until the group is done with all records of a partition, and note what its offsets are then."""
        self.wait(lambda: self._lag(place) == 0)
        self.offsets(place)

    def _lag(self, place: Place) -> int:
        (group,) = self.client("reader").ask(self.offsets_request(place), 1).groups
        return int(group.topics[0].partitions[0].lag)
