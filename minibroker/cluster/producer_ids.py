"""Producer ids for idempotent producers.

Unique in the cluster's whole life, so handed out of blocks that are noted on disk first. The rest of a block is lost at
a restart.
"""

from minibroker.cluster.topics import PRODUCER_ID_BLOCK, Topics


class ProducerIds:
    """The allocator."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._next: int = topics.next_producer_id
        self._block_end: int = self._next

    def skip_block(self) -> None:
        """Give out none of the rest of the block: other topics are there, whose logs may have such ids."""
        self._next = self._block_end = self._topics.next_producer_id

    def next(self) -> int:
        """A producer id that has never been given out. OSError when a new block cannot be noted."""
        if self._next == self._block_end:
            self._topics.next_producer_id = self._block_end + PRODUCER_ID_BLOCK
            self._topics.save(sync=True)  # once in a thousand ids; an id that is given out twice loses records
            self._block_end += PRODUCER_ID_BLOCK
        self._next += 1
        return self._next - 1
