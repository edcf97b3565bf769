"""Real clients in groups of the consumer protocol (KIP-848): all of those that speak it, together in one group.

The session's end is the broker's matter there, so that a broker of its own has short ones.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from minibroker import Broker
from tests.broker.config.configs import GROUP, SET, change_request
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.group_members import MEMBER_PROGRAMS, Group, Member, MemberProgram
from tests.clients.line_process import wait_until
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

PARTITIONS: Final = 8
SPEAKERS: Final = {
    name: program
    for name, program in MEMBER_PROGRAMS.items()
    if name.startswith(("java", "confluent", "librdkafka", "franz"))
}

every_speaker = pytest.mark.parametrize("program", one_in(4, SPEAKERS.values()), ids=SPEAKERS)


@pytest.fixture(scope="module")
def config() -> Mapping[str, str]:
    """Short sessions, and heartbeats that follow soon."""
    return {
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "4000",
        "group.consumer.max.session.timeout.ms": str(int(PATIENCE_S * 1000)),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
    }


class ConsumerGroup(Group):
    """The members of one group of the consumer protocol."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.bootstrap_servers, PARTITIONS)
        self.broker = broker

    def start(self, program: MemberProgram, **options: Any) -> Member:
        """Start a member."""
        return super().start(program, **{"strategy": "consumer", **options})

    def until_shared_by(self, *members: Member) -> None:
        """Wait until each partition is with one of the members, and nobody has two more than another one."""
        super().until_shared_by(*members)
        described = self.broker.group(self.name).wait_until_stable(members=len(members))
        assert described.type == "consumer"
        assigned = {place for member in described.members for place in member.partitions or ()}
        assert assigned == self.partitions

    def grow(self, partitions: int) -> None:
        """Give the topic more partitions."""
        self.client.create_partitions(self.topic, partitions)
        self.partitions = {(self.topic, number) for number in range(partitions)}

    def wait_for_absent_members(self) -> None:
        """Keep the place of a static member that is away for as long as its next process may take to start."""
        change = (SET, "consumer.session.timeout.ms", str(int(PATIENCE_S * 1000)))
        with SocketClient(address_of(self.broker.bootstrap_servers)) as client:
            response = client.ask(change_request(GROUP, self.name, change), 1)
        assert [each.error_code for each in response.responses] == [0]


@pytest.fixture
def group(broker: Broker) -> Iterator[ConsumerGroup]:
    running = ConsumerGroup(broker)
    try:
        yield running
    finally:
        running.close()


@pytest.mark.torture
@pytest.mark.parametrize("names", [("librdkafka", "franz-go", "librdkafka"), tuple(SPEAKERS)], ids=len)
def test_members_of_several_clients_are_in_one_group(group: ConsumerGroup, names: tuple[str, ...]) -> None:
    members: list[Member] = []
    for name in names:
        members.append(group.start(SPEAKERS[name]))
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
def test_a_classic_member_and_one_of_the_consumer_protocol_share_a_group(
    group: ConsumerGroup, program: MemberProgram
) -> None:
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
def test_a_static_member_comes_back_to_what_it_had(group: ConsumerGroup, program: MemberProgram) -> None:
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
