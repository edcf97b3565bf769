"""Range assignment: the order of members and their pieces of a topic (Kafka's `RangeAssignor`)."""

from minibroker_protocol.java_text import utf16_order


class Shares:
    """The partitions of a topic, cut into pieces for its subscribers; the first ones are larger by one if need be."""

    def __init__(self, partitions: int, subscribers: int) -> None:
        self._size, self._larger = divmod(partitions, subscribers)
        self._next = 0

    def take(self) -> range:
        """The next piece."""
        first = self._next
        self._next += self._size
        if self._larger:
            self._larger -= 1
            self._next += 1
        return range(first, self._next)


def rank(member_id: str, instance_id: str | None) -> tuple[bool, bytes]:
    """The place of a member in the order: static members first, by their instance ids, the others by member ids."""
    return instance_id is None, utf16_order(member_id if instance_id is None else instance_id)
