"""Real clients in groups of the consumer protocol (KIP-848): all of those that speak it, together in one group.

The session's end is the broker's matter there, so that a broker of its own has short ones.
"""

import threading
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest

from minibroker import Broker
from minibroker_protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.group_members import Member, MemberOptions, MemberProgram, Partition, Strategy, wait_until
from tests.clients.member_programs import MEMBER_PROGRAMS
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

PARTITIONS: Final = 8
_GROUP: Final = 32
"""The type of config resources (KIP-1043)."""
CONFIG: Final = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.max.session.timeout.ms": str(int(PATIENCE_S * 1000)),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}
SPEAKERS: Final = {
    name: program
    for name, program in MEMBER_PROGRAMS.items()
    if name.startswith(("java", "confluent", "librdkafka", "franz"))
}

every_speaker = pytest.mark.parametrize("program", one_in(4, SPEAKERS.values()), ids=SPEAKERS)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=CONFIG) as running:
        yield running


class Group:
    """The members of one group that share one topic, and whoever produces for them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.name = f"group-{uuid.uuid4().hex[:12]}"
        self.topic = f"topic-{uuid.uuid4().hex[:12]}"
        broker.create_topic(self.topic, PARTITIONS)
        self.partitions: set[Partition] = {(self.topic, number) for number in range(PARTITIONS)}
        self._members: list[Member] = []
        self.changed = threading.Condition()

    def start(self, program: MemberProgram, strategy: Strategy = "consumer", **options: Any) -> Member:
        """Start a member."""
        chosen = MemberOptions(
            self.broker.bootstrap_servers,
            self.name,
            [self.topic],
            client_id=f"member-{len(self._members)}",
            strategy=strategy,
            **options,
        )
        member = Member(program, chosen, self.changed)
        self._members.append(member)
        return member

    def until_shared_by(self, *members: Member) -> None:
        """Wait until each partition is with one of the members, and nobody has two more than another one."""

        def shared() -> bool:
            held = [place for member in members for place in member.holding]
            sizes = [len(member.holding) for member in members]
            return sorted(held) == sorted(self.partitions) and max(sizes) - min(sizes) < 2

        wait_until(self.changed, shared, f"{len(self.partitions)} partitions with {len(members)} members", members)
        described = self.broker.group(self.name).wait_until_stable(members=len(members))
        assert described.type == "consumer"
        assigned = {place for member in described.members for place in member.partitions or ()}
        assert assigned == self.partitions

    def until_delivered(self, value: str, *members: Member) -> None:
        """Produce into every partition, and wait until the members have got all of it."""
        for topic, number in self.partitions:
            self.broker.produce(topic, value, partition=number)

        def receivers() -> set[Partition]:
            return {
                (record.topic, record.partition)
                for member in members
                for record in member.records
                if record.value == value
            }

        wait_until(self.changed, lambda: receivers() == self.partitions, f"the records {value!r}", members)

    def grow(self, partitions: int) -> None:
        """Give the topic more partitions."""
        topic = CreatePartitionsTopic(name=self.topic, count=partitions, assignments=None)
        with SocketClient(address_of(self.broker.bootstrap_servers)) as client:
            client.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=10_000), 1)
        self.partitions = {(self.topic, number) for number in range(partitions)}

    def wait_for_absent_members(self) -> None:
        """Keep the place of a static member that is away for as long as its next process may take to start."""
        key = IncrementallyAlteredConfig(
            name="consumer.session.timeout.ms", config_operation=0, value=str(int(PATIENCE_S * 1000))
        )
        resource = IncrementallyAlteredResource(resource_type=_GROUP, resource_name=self.name, configs=[key])
        with SocketClient(address_of(self.broker.bootstrap_servers)) as client:
            response = client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert [each.error_code for each in response.responses] == [0]

    def close(self) -> None:
        """End all processes."""
        for member in self._members:
            member.close()


@pytest.fixture
def group(broker: Broker) -> Iterator[Group]:
    running = Group(broker)
    try:
        yield running
    finally:
        running.close()


@every_speaker
def test_members_of_one_client_share_the_partitions(group: Group, program: MemberProgram) -> None:
    first = group.start(program)
    group.until_shared_by(first)
    group.until_delivered("alone", first)
    second = group.start(program)
    group.until_shared_by(first, second)
    group.until_delivered("two", first, second)
    assert first.commit([(group.topic, number, 1, "") for _, number in sorted(first.holding)]) is None
    second.leave()
    group.until_shared_by(first)
    first.leave()
    group.broker.group(group.name).wait_until_stable(members=0)


def test_members_of_all_clients_are_in_one_group(group: Group) -> None:
    members: list[Member] = []
    for program in SPEAKERS.values():
        members.append(group.start(program))
        group.until_shared_by(*members)
    group.until_delivered("together", *members)
    group.grow(2 * PARTITIONS)
    group.until_shared_by(*members)
    group.until_delivered("grown", *members)
    doomed, leaving, *others = members
    doomed.kill()
    group.until_shared_by(leaving, *others)
    leaving.leave()
    group.until_shared_by(*others)
    group.until_delivered("fewer", *others)


@every_speaker
def test_a_classic_member_and_one_of_the_consumer_protocol_share_a_group(group: Group, program: MemberProgram) -> None:
    old = group.start(program, strategy="cooperative", session_timeout_ms=6_000)
    wait_until(group.changed, lambda: old.holding == group.partitions, "a classic group", [old])
    new = group.start(program)
    group.until_shared_by(old, new)
    group.until_delivered("both", old, new)
    new.leave()
    wait_until(group.changed, lambda: old.holding == group.partitions, "a classic group again", [old])
    described = group.broker.group(group.name).wait_until_stable(members=1)
    assert described.type == "classic"


@every_speaker
def test_a_static_member_comes_back_to_what_it_had(group: Group, program: MemberProgram) -> None:
    program.require("static")
    ends_session = program.name != "franz-go"  # which says nothing when it closes, and is back once its session is over
    if ends_session:
        group.wait_for_absent_members()
    steady = group.start(program, instance_id="steady")
    away = group.start(program, instance_id="away")
    group.until_shared_by(steady, away)
    epoch = group.broker.group(group.name).describe().generation
    had = set(away.holding)
    away.leave()
    back = group.start(program, instance_id="away")
    wait_until(group.changed, lambda: back.holding == had, "what it had", [steady, back])
    group.until_shared_by(steady, back)
    if ends_session:
        assert group.broker.group(group.name).describe().generation == epoch
