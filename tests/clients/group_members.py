"""Members of consumer groups: one process for each, a program per client library, driven by lines of JSON.

A program gets one argument, the JSON of `MemberOptions`, and polls until it is told to stop. It prints events, one JSON
object a line, and takes commands, one a line, on stdin; the end of stdin means close.

| event | with |
|---|---|
| ready | nothing; the client exists |
| assigned | partitions: all that it holds now, as [topic, partition], sorted |
| revoked, lost | partitions: those that it holds no more |
| record | topic, partition, offset, value (text) |
| committed | error: None, or a text |
| offsets | offsets: [topic, partition, offset or None, metadata or None] |
| error | text: whatever the client complains of |
| closed | nothing; the process ends with status 0 |

| command | with | answer |
|---|---|---|
| commit | offsets: [topic, partition, offset, metadata] | committed |
| offsets | partitions: [topic, partition], of which the broker is asked | offsets |
| close | nothing | closed; the member has left its group as its client does |
"""

import json
import sys
import sysconfig
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pytest

from tests.clients import go_programs, java_programs, node_programs
from tests.clients.contract import Message
from tests.clients.librdkafka_client import Librdkafka
from tests.clients.line_process import Event, LineProcess, wait_until

Strategy: TypeAlias = Literal["eager", "cooperative", "consumer"]
Feature: TypeAlias = Literal["eager", "cooperative", "consumer", "static", "metadata"]
Partition: TypeAlias = tuple[str, int]

_ONLY_EAGER: Final = "it knows nothing of cooperative rebalancing"
_NO_STATIC: Final = "it knows nothing of static members"
_NO_METADATA: Final = "it does not show the metadata of a committed offset"


@dataclass(frozen=True)
class MemberProgram:
    """The start of a member of one client library.

    `command` is called when the first member starts, in a test, and not before: it may build the program (once; it
    should be cached) and may skip the test when the toolchain is missing. The JSON of the options is appended to it.
    """

    name: str
    command: Callable[[], Sequence[str]]
    #: What this client cannot do, and the reason, which a skipped test repeats.
    cannot: Mapping[Feature, str] = field(default_factory=dict[Feature, str])

    def require(self, *features: Feature) -> None:
        """Skip the test unless this client can do all of that."""
        for feature in features:
            if feature in self.cannot:
                pytest.skip(f"{self.name}: {self.cannot[feature]}")


def _python(name: str, folder: str | None = None) -> Sequence[str]:
    """A member in Python; its client may be one that cannot share an environment with the others."""
    command = [sys.executable, "-m", f"tests.clients.members.{name}_member"]
    if folder is None:
        return command
    place = Path(sysconfig.get_path("data")) / folder
    assert place.is_dir(), f"{place} is not there: `make setup` makes it"
    return [*command, str(place)]


MEMBER_PROGRAMS: Final[dict[str, MemberProgram]] = {
    program.name: program
    for program in (
        MemberProgram("kafka-python", lambda: _python("kafka_python")),
        MemberProgram(
            "kafka-python-2", lambda: _python("kafka_python", "kafka-python-2"), {"cooperative": _ONLY_EAGER}
        ),
        MemberProgram(
            "kafka-python-1",
            lambda: _python("kafka_python", "old-client"),
            {"cooperative": _ONLY_EAGER, "static": _NO_STATIC, "metadata": _NO_METADATA},
        ),
        MemberProgram("aiokafka", lambda: _python("aiokafka"), {"cooperative": _ONLY_EAGER, "metadata": _NO_METADATA}),
        MemberProgram("librdkafka", lambda: _python("librdkafka")),
        *(
            MemberProgram(f"java-{version}", partial(java_programs.client_command, "Member", version))
            for version in java_programs.VERSIONS
        ),
        MemberProgram(
            "kafkajs",
            lambda: node_programs.command(node_programs.FOLDER / "member.js"),
            {"cooperative": _ONLY_EAGER, "static": _NO_STATIC},
        ),
        MemberProgram("franz-go", lambda: go_programs.command("member")),
    )
}
"""Every program that can be a member of a group, by its name; the tests run in this order."""


@dataclass(frozen=True)
class MemberOptions:
    """The configuration of a member. Times are in ms; an unset offset starts at the earliest record.

    With the strategy "consumer" the coordinator assigns (KIP-848), and the two times of sessions are the broker's.
    """

    bootstrap: str
    group: str
    topics: Sequence[str]
    strategy: Strategy = "eager"
    session_timeout_ms: int = 30_000
    heartbeat_interval_ms: int = 100
    instance_id: str | None = None
    auto_commit: bool = False
    auto_commit_interval_ms: int = 100
    client_id: str = "member"
    rack: str | None = None


class Delivered(NamedTuple):
    """A record that a member got."""

    topic: str
    partition: int
    offset: int
    value: str


class Member(LineProcess):
    """One member's process, and what it has told so far."""

    def __init__(self, program: MemberProgram, options: MemberOptions, changed: threading.Condition) -> None:
        self.name = options.client_id
        self.holding: set[Partition] = set()
        self.records: list[Delivered] = []
        super().__init__([*program.command(), json.dumps(asdict(options))], changed)

    def __repr__(self) -> str:
        return f"{self.name}: holds {sorted(self.holding)}; told {super().__repr__()}"

    def commit(self, offsets: Iterable[tuple[str, int, int, str]]) -> str | None:
        """Commit (topic, partition, offset, metadata). The client's complaint, or None if it has none."""
        answer = self._ask({"do": "commit", "offsets": [list(each) for each in offsets]}, "committed")
        error: str | None = answer["error"]
        return error

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int | None, str | None]]:
        """The broker's committed offsets and metadata of these partitions."""
        answer = self._ask({"do": "offsets", "partitions": [list(each) for each in partitions]}, "offsets")
        return {(topic, partition): (offset, metadata) for topic, partition, offset, metadata in answer["offsets"]}

    def leave(self) -> None:
        """Close the client properly. AssertionError unless the process ends in time with status 0."""
        self.end()
        self.holding.clear()

    def kill(self) -> None:
        """End it with SIGKILL: it tells nobody."""
        super().kill()
        self.holding.clear()

    def _ask(self, command: Mapping[str, Any], answer: str) -> Event:
        before = self.count(answer)
        self.send(command)
        self.wait_for(lambda: self.count(answer) > before, f"answer to {command}")
        return [event for event in self.events if event["event"] == answer][before]

    def note(self, event: Event) -> None:
        """Take in an event that it has printed."""
        super().note(event)
        match event["event"]:
            case "assigned":
                self.holding = {(topic, partition) for topic, partition in event["partitions"]}
            case "revoked" | "lost":
                self.holding -= {(topic, partition) for topic, partition in event["partitions"]}
            case "record":
                self.records.append(Delivered(event["topic"], event["partition"], event["offset"], event["value"]))
            case _:
                pass


class Group:
    """The members of one group that share one topic, and whoever produces for them."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self.topic = f"topic-{uuid.uuid4().hex[:12]}"
        self.name = f"group-{uuid.uuid4().hex[:12]}"
        self.client = Librdkafka(bootstrap)
        self.client.create_topic(self.topic, partitions)
        self.partitions: set[Partition] = {(self.topic, number) for number in range(partitions)}
        self.changed = threading.Condition()
        self._members: list[Member] = []

    def start(self, program: MemberProgram, **options: Any) -> Member:
        """Start a member."""
        client_id = f"member-{len(self._members)}"
        chosen = MemberOptions(self.client.bootstrap, self.name, [self.topic], client_id=client_id, **options)
        member = Member(program, chosen, self.changed)
        self._members.append(member)
        return member

    def until_shared_by(self, *members: Member) -> None:
        """Wait until these members hold every partition, none of them twice, and nobody two more than another one."""

        def is_shared() -> bool:
            held = [partition for member in members for partition in member.holding]
            sizes = [len(member.holding) for member in members]
            return sorted(held) == sorted(self.partitions) and max(sizes) - min(sizes) <= 1

        wait_until(self.changed, is_shared, f"{len(members)} members to share all partitions", members)

    def until_delivered(self, value: str, *members: Member) -> None:
        """Produce one record into every partition, and wait until the owner of each has got it, and nobody else."""
        self.produce(value)

        def receivers() -> dict[Partition, Member]:
            return {
                (record.topic, record.partition): member
                for member in members
                for record in member.records
                if record.value == value
            }

        wait_until(self.changed, lambda: receivers().keys() == self.partitions, f"the records {value!r}", members)
        for partition, member in receivers().items():
            assert partition in member.holding, (partition, members)

    def produce(self, value: str, count: int = 1) -> None:
        """Produce records with this value into every partition."""
        messages = [Message(value.encode(), partition=partition) for _, partition in self.partitions] * count
        self.client.produce(self.topic, messages)

    def close(self) -> None:
        """End all processes."""
        for member in self._members:
            member.close()
