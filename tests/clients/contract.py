"""The contract between the tests and a client; one adapter per client makes its own calls out of it.

Every call opens its client and closes it again, so that nothing hides in a client's caches, sessions or buffers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from tests.patience import PATIENCE_S

TIMEOUT: Final = PATIENCE_S
"""Seconds after which anything that should have happened counts as failed: so many that a slow machine is in time."""

Compression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]
Headers: TypeAlias = tuple[tuple[str, bytes], ...]


class Message(NamedTuple):
    """A record to produce. `timestamp` is in ms; None is now."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int = 0


class Record(NamedTuple):
    """A consumed record. `timestamp` is in ms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class RefusedError(Exception):
    """The broker answered with an error; `code` is Kafka's number for it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Client(ABC):
    """One Kafka client library."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def produce(
        self, topic: str, messages: Sequence[Message], *, compression: Compression = "none", idempotent: bool = False
    ) -> list[int]:
        """Produce in order with one producer; messages may be up to 4 MiB.

        Returns their offsets. RefusedError if the broker refuses one.
        """

    @abstractmethod
    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: int | None = None,
        isolation: Isolation = "read_uncommitted",
    ) -> list[Record]:
        """The first `count` records from offset `start`, or from the beginning.

        An offset out of range starts again from the earliest one. AssertionError if they do not come in time.
        """

    @abstractmethod
    def watermarks(self, topic: str, partition: int = 0, isolation: Isolation = "read_uncommitted") -> tuple[int, int]:
        """(earliest offset, end offset); with read_committed the end is the last stable offset."""

    @abstractmethod
    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        """The offset that a group has committed."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with one replica. RefusedError if the broker refuses."""
