"""A queue as Java's `PriorityQueue` is: which of equal elements comes first depends on how it sifts them."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaQueue(Generic[T]):
    """The least element first, by a number; `poll` and `add` as in Java, which decides among equal ones."""

    __slots__ = ("_items", "_key")

    def __init__(self, items: Iterable[T], key: Callable[[T], float]) -> None:
        self._items: list[T] = []
        self._key = key
        for each in items:
            self.add(each)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> None:
        """Put an element in, and let it rise while it is less than what is above it."""
        items, key = self._items, self._key
        items.append(item)
        place, value = len(items) - 1, key(item)
        while place > 0:
            parent = (place - 1) >> 1
            if value >= key(items[parent]):
                break
            items[place] = items[parent]
            place = parent
        items[place] = item

    def poll(self) -> T | None:
        """Take the first element out; None where there is none. The last one takes its place, and sinks."""
        items, key = self._items, self._key
        if not items:
            return None
        first, last = items[0], items.pop()
        size = len(items)
        if not size:
            return first
        place, value = 0, key(last)
        while place < size >> 1:
            child = 2 * place + 1
            if child + 1 < size and key(items[child]) > key(items[child + 1]):
                child += 1
            if value <= key(items[child]):
                break
            items[place] = items[child]
            place = child
        items[place] = last
        return first
