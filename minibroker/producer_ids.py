"""Producer ids for idempotent producers.

Unique in the cluster's whole life, so handed out of blocks that are noted on disk first.
"""

from typing import Final

from minibroker.metadata.topics import Topics

_BLOCK: Final = 1000
"""As many as Kafka's controller hands to a broker at once; what is left of a block is lost at a restart."""


class ProducerIds:
    """The allocator."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._next: int = topics.next_producer_id
        self._block_end: int = self._next

    def next(self) -> int:
        """A producer id that nobody has had. OSError when a new block cannot be noted."""
        if self._next == self._block_end:
            self._topics.next_producer_id = self._block_end + _BLOCK
            self._topics.save()
            self._block_end += _BLOCK
        self._next += 1
        return self._next - 1
