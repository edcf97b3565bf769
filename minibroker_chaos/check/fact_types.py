"""The kinds of facts: what a broker saw of its clients, and what it did to them."""

from dataclasses import dataclass

from minibroker_storage.data_directory.names import TopicPartition


def shown(partition: TopicPartition) -> str:
    """Return a partition as TOPIC-INDEX."""
    return f"{partition[0]}-{partition[1]}"


@dataclass(slots=True)
class Fact:
    """Something that the broker saw.

    Attributes:
        tick: The position in the order in which requests were applied.
        number: The number of the request, in order of arrival, as in the journal.
        arrived: The number of the last request that had arrived by then.
        client: The client id.
    """

    tick: int
    number: int
    arrived: int
    client: str

    def is_before(self, other: "Fact") -> bool:
        """Return whether this was over when the request of `other` arrived."""
        return self.tick < other.tick and self.arrived < other.number


@dataclass(slots=True)
class Append(Fact):
    """Batches that were appended; `base_offset` is -1 with acks=0, whose response is unknown."""

    partition: TopicPartition
    base_offset: int
    acks: int
    transactional_id: str | None

    def __str__(self) -> str:
        where = "an unknown offset" if self.base_offset < 0 else f"offset {self.base_offset}"
        return f"{self.client} wrote to {shown(self.partition)} at {where}"


@dataclass(slots=True)
class Read(Fact):
    """Records from `offset` on, that a client was sent on a connection. `member` is that of a share group."""

    partition: TopicPartition
    offset: int
    connection: str
    member: str = ""

    def __str__(self) -> str:
        return f"{self.client} was sent {shown(self.partition)} from offset {self.offset} on"


@dataclass(slots=True)
class Commit(Fact):
    """A committed offset.

    Attributes:
        generation: The generation or member epoch, or -1 for a client that is no member.
        connection: The client's address.
        is_answered: Whether no fault hit the request, so that the response was sent.
        is_transactional: Whether it was part of a transaction, which was committed now.
    """

    group: str
    partition: TopicPartition
    offset: int
    member: str
    generation: int
    connection: str
    is_answered: bool
    is_transactional: bool = False

    def __str__(self) -> str:
        how = " in a transaction" if self.is_transactional else ""
        return f"{self.client} committed {self.offset} of {shown(self.partition)} for {self.group}{how}"


@dataclass(slots=True)
class Accepted(Fact):
    """Records of a share group that a member has accepted, up to and including `last`."""

    group: str
    partition: TopicPartition
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.client} accepted {shown(self.partition)}@{self.first} to {self.last} for {self.group}"


@dataclass(slots=True)
class Assignment(Fact):
    """The partitions that a member got. An empty `partitions` with generation -1 means that it left."""

    group: str
    member: str
    generation: int
    partitions: tuple[TopicPartition, ...]
    is_classic: bool = True

    def __str__(self) -> str:
        if self.generation < 0:
            return f"{self.client} left {self.group}"
        got = ", ".join(map(shown, self.partitions)) or "no partition"
        return f"generation {self.generation} of {self.group}: {self.client} got {got}"


@dataclass(slots=True)
class Refusal(Fact):
    """An error in the answer to a request about a group or a transactional id (`subject`), or to a partition."""

    subject: str
    api: str
    error: str

    def __str__(self) -> str:
        return f"{self.client} got {self.error} for {self.api} of {self.subject}"


@dataclass(slots=True)
class Ended(Fact):
    """A transaction that its producer ended."""

    transactional_id: str
    producer_id: int
    epoch: int
    committed: bool

    def __str__(self) -> str:
        return f"{self.client} {'committed' if self.committed else 'aborted'} a transaction of {self.transactional_id}"


@dataclass(slots=True)
class Marker(Fact):
    """A transaction marker in a partition."""

    partition: TopicPartition
    producer_id: int
    committed: bool

    def __str__(self) -> str:
        kind = "commit" if self.committed else "abort"
        return f"producer {self.producer_id} got a marker ({kind}) in {shown(self.partition)}"


@dataclass(slots=True)
class Step(Fact):
    """A misbehavior of the broker: of chaos, of a fault, or of a leader that moved."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class Cut(Fact):
    """A failover that cut off the end of a log, from `offset` on."""

    partition: TopicPartition
    offset: int

    def __str__(self) -> str:
        return f"a failover of {shown(self.partition)} lost the records from offset {self.offset} on"


@dataclass(slots=True)
class Forgotten(Fact):
    """Committed offsets that were deleted: of a group, of a topic, or of both. None means all."""

    group: str | None
    topic: str | None

    def __str__(self) -> str:
        return f"the offsets of {self.group or 'all groups'} for {self.topic or 'all topics'} were deleted"
