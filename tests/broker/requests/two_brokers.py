"""Two brokers that get the same requests, one of which takes the short way, and what a client sends to them."""

import errno
import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, Literal
from unittest.mock import patch

from minibroker.cluster.cluster import ClusterError
from minibroker.cluster.partition import Partition
from minibroker.faults.observed import journal_of
from minibroker.requests.dispatch import SlicedRequest
from minibroker.requests.repeats import UNKNOWN, Repeats
from minibroker.requests.request_path import compose
from minibroker.routing.outcomes import AnyOutcome, Outcome, Waiting
from minibroker.routing.routes import UnservedRequestError
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minibroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from minibroker_protocol.messages.heartbeat import HeartbeatRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.records import NewRecord, build_batch
from minibroker_protocol.records.header import compute_crc
from minibroker_protocol.records.legacy import build_message_set
from tests.broker.faults.tapped import Channel
from tests.broker.harness import Harness, batch, bytes_of

NOW: Final = 1_700_000_000_000


def with_wrong_time() -> bytearray:
    """A batch whose header says another largest timestamp than its records; the checksum is right."""
    made = batch(b"a", b"b", timestamp=NOW)
    struct.pack_into(">q", made, 35, NOW + 999)
    struct.pack_into(">I", made, 17, compute_crc(memoryview(made)))
    return made


def with_wrong_checksum() -> bytearray:
    made = batch(b"spoilt")
    made[-1] ^= 1
    return made


RECORDS: Final[tuple[bytes, ...]] = tuple(
    bytes(made)
    for made in (
        b"",
        batch(b"a"),
        batch(b"x" * 70),
        batch(b"x" * 200),
        batch(*[b"y"] * 7),
        with_wrong_time(),
        with_wrong_checksum(),
        batch(b"late", timestamp=NOW + 10**12),
        build_batch([NewRecord(b"key", b"keyed", NOW)]),
        build_message_set([NewRecord(None, b"old", NOW)], magic=1),
        *(
            build_batch(
                [NewRecord(None, b"idempotent", NOW)],
                producer_id=7,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=transactional,
            )
            for epoch, sequence, transactional in (
                (0, 0, False),
                (0, 1, False),
                (0, 2, False),
                (1, 0, False),
                (0, 3, True),
            )
        ),
    )
)


def others() -> tuple[tuple[Any, int], ...]:
    """Requests that clients repeat byte for byte."""
    return (
        (MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9),
        (MetadataRequest(topics=[MetadataRequestTopic(name="u"), MetadataRequestTopic(name="t")]), 12),
        (MetadataRequest(topics=None), 12),
        (MetadataRequest(topics=[MetadataRequestTopic(name="none")], allow_auto_topic_creation=False), 9),
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
        (ApiVersionsRequest(), 0),
        (FindCoordinatorRequest(key="g"), 2),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
        *(
            (
                ConsumerGroupHeartbeatRequest(
                    group_id="g",
                    member_id="m",
                    member_epoch=epoch,
                    rebalance_timeout_ms=1000,
                    subscribed_topic_names=["t", "u"] if not epoch else None,
                    topic_partitions=[] if not epoch else None,
                ),
                1,
            )
            for epoch in (0, 1, 2, 3, -1)
        ),
    )


def ends_of(partition: Partition) -> tuple[int, int] | None:
    """The first and the next offset of a partition's log, None while it is not open."""
    log = partition.opened_log
    return None if log is None else (log.log_start_offset, log.log_end_offset)


def log_bytes(partition: Partition) -> bytes:
    """All that is in the log's files."""
    parts: list[bytes] = []
    for each in partition.log.segments:
        if not each.size:  # perhaps its file has not been made
            continue
        with open(each.log.path, "rb") as file:
            parts.append(file.read(each.size))
    return b"".join(parts)


def refused(*_: Any) -> None:
    """Write to a disk that is full."""
    raise OSError(errno.ENOSPC, "No space left on device")


class Counted(Repeats):
    """Counts the requests of all connections that take the short way."""

    taken = 0

    def take(self, frame: memoryview) -> AnyOutcome | Literal[False]:
        outcome = super().take(frame)
        Counted.taken += outcome is not UNKNOWN
        return outcome


class Side:
    """A broker, and a client's connection to it."""

    def __init__(self, directory: str, config: dict[str, str], *, repeats: bool) -> None:
        self._ids = count(1)
        self._repeats = repeats
        self.directory = directory
        self.channel = Channel()
        with self.named():
            self.harness = Harness(directory, config, brokers=2)
        self.harness.core.cluster.cluster_id = "c"
        self.connect()

    @contextmanager
    def named(self) -> Generator[None, None, None]:
        """Topics and fetch sessions that are made get ids that the other broker gives, too."""
        with (
            patch("minibroker.cluster.topics.new_uuid", lambda: next(self._ids).to_bytes(16, "big")),
            patch("minibroker.cluster.fetch_sessions._random_id", lambda: next(self._ids)),
        ):
            yield

    def connect(self) -> None:
        """Connect again."""
        self.session = self.harness.session(repeats=Counted() if self._repeats else None)

    def do(self, change: Callable[[Harness], object]) -> object:
        """Have an administrator change something; says what came of it."""
        with self.named():
            try:
                result = change(self.harness)
            except (AssertionError, ClusterError) as error:
                result = type(error).__name__
            self.harness.run_soon()
        return repr(result).replace(self.directory, "")

    def send(self, frames: list[bytes]) -> list[bytes | str]:
        """All that the client gets for frames that come in one wake-up."""
        received: list[bytes | str] = []
        answers: list[Any] = []
        with self.named():
            for frame in frames:
                try:
                    outcome = compose(self.harness.services, None, self.channel)(
                        memoryview(bytearray(frame)), self.session
                    )
                except (DecodeError, UnservedRequestError) as error:
                    self._end(answers, received)
                    received.append(f"{type(error).__name__}: {error}")
                    self.connect()
                    break
                if isinstance(outcome, Waiting):
                    self._end(answers, received)
                    self._wait(outcome, received)
                elif outcome is not None:
                    answers.append(outcome)
            self._end(answers, received)
            self.harness.run_soon()
        received += self.channel.events
        self.channel.events.clear()
        return [self._plain(each) for each in received]

    def send_waiting(self, frame: bytes, change: Callable[[Harness], object]) -> list[bytes | str]:
        """All that the client gets for a request that waits while something changes."""
        received: list[bytes | str] = []
        outcome: Any
        with self.named():
            outcome = compose(self.harness.services, None, self.channel)(memoryview(bytearray(frame)), self.session)
            if isinstance(outcome, Waiting):
                self._expect(outcome, received)
            elif outcome is not None:
                self._end([outcome], received)
            self.harness.run_soon()
        received.append(str(self.do(change)))
        if isinstance(outcome, Waiting):
            self.harness.clock.advance(1000)
            self.harness.run_soon()
        received += self.channel.events
        self.channel.events.clear()
        return [self._plain(each) for each in received]

    def _end(self, answers: list[Any], received: list[bytes | str]) -> None:
        self.harness.core.writes.commit()
        received += [bytes_of(answer) for answer in answers]
        answers.clear()

    def _wait(self, waiting: Waiting, received: list[bytes | str]) -> None:
        """Wait for a delayed answer."""
        self._expect(waiting, received)
        before = len(received) + len(self.channel.events)
        self.harness.run_soon()
        self.harness.clock.advance(10)
        self.harness.run_soon()
        assert len(received) + len(self.channel.events) > before

    def _expect(self, waiting: Waiting, received: list[bytes | str]) -> None:
        """Have a delayed answer come among the received ones."""

        def finish(outcome_of: Callable[[], Outcome]) -> None:
            outcome = outcome_of()
            if isinstance(outcome, Waiting):
                self._expect(outcome, received)
            elif outcome is not None:
                received.append(bytes_of(outcome))

        if isinstance(waiting.delayed, SlicedRequest):
            waiting.delayed.finish = finish
        else:
            waiting.delayed.deliver = lambda response: received.append(
                bytes_of(waiting.answer._replace(response=response))
            )
            waiting.delayed.deliver_filled = lambda answer: received.append(bytes_of(answer))

    def _plain(self, event: bytes | str) -> bytes | str:
        """Without the name of the broker's directory."""
        if isinstance(event, str):
            return event.replace(self.directory, "")
        return event.replace(self.directory.encode(), b"")

    def journal(self) -> list[str]:
        """The journal's entries since the last call, empty while none is kept."""
        journal = journal_of(self.harness.services)
        if journal is None:
            return []
        shown = [f"{entry.to_json()} {entry.targets}".replace(self.directory, "") for entry in journal]
        journal.clear()
        return shown
