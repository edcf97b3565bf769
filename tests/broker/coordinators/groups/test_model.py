"""Random requests of group members in any order, after which the invariants of the group must hold."""

import tempfile
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from minibroker.coordinators.groups.classic.group import Group, GroupState
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import (
    BOTH,
    CHANGED,
    RANGE,
    Offers,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from tests.broker.harness import Harness, Pending

CLIENTS: Final = 5
LONGEST_MS: Final = 60_000
OFFERS: Final[tuple[Offers, ...]] = (RANGE, CHANGED, BOTH, (("sticky", b"?"), ("range", b"?")))
CODES: Final = {0, 16, 22, 23, 25, 27, 79, 81, 82}
"""The error codes that members can get, without any caused by a fault of the broker."""

clients = st.integers(0, CLIENTS - 1)


class Client:
    """The state of a client. The last two clients are static members."""

    def __init__(self, number: int) -> None:
        self.instance = f"static-{number}" if number >= CLIENTS - 2 else None
        self.member_id = ""
        self.generation = -1
        self.leads: list[str] = []
        self.waiting: Pending | None = None


@settings(stateful_step_count=40, suppress_health_check=list(HealthCheck))
class GroupMachine(RuleBasedStateMachine):
    """A group of at most four members, and five clients that try to join it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.harness = Harness(self.directory.name, {"group.max.size": "4", "group.initial.rebalance.delay.ms": "100"})
        self.members = Members(self.harness)
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.generation = 0

    def teardown(self) -> None:
        """Check that every waiting member gets a response in the end, and that no member is left."""
        for _ in range(6):
            self.harness.clock.advance(LONGEST_MS)
            self.harness.run_soon()
        assert [client for client in self.clients if client.waiting and not client.waiting.is_answered] == []
        assert self.members.state in {"Empty", "Dead"}
        self.harness.close()
        self.directory.cleanup()

    def ask(self, client: Client, request: Any, version: int) -> None:
        """Send a client's request, unless the client is still waiting for a response."""
        self.take(client)
        if client.waiting is not None:
            return
        answer = self.harness.send(request, version)
        if isinstance(answer, Pending):
            client.waiting = answer
        else:
            self.learn(client, answer)
        for other in self.clients:
            self.take(other)

    def take(self, client: Client) -> None:
        """Receive the response for which a client has been waiting, if there is one."""
        if client.waiting is not None and client.waiting.is_answered:
            response, client.waiting = client.waiting.response, None
            self.learn(client, response)

    def learn(self, client: Client, response: Any) -> None:
        """Update the state of a client with a response."""
        assert response.error_code in CODES, response
        if type(response).__name__ == "JoinGroupResponse":
            if response.error_code in {0, 79}:
                client.member_id = response.member_id
            elif response.error_code in {25, 82}:
                client.member_id = ""
            if not response.error_code:
                client.generation = response.generation_id
                client.leads = [member.member_id for member in response.members]
                assert not client.leads or client.member_id in client.leads

    @rule(number=clients, offers=st.sampled_from(OFFERS), version=st.sampled_from([3, 5, 8, 9]), again=st.booleans())
    def join(self, number: int, offers: Offers, version: int, *, again: bool) -> None:
        client = self.clients[number]
        instance = client.instance if version >= 5 else None
        member_id = "" if again else client.member_id
        request = join_request("g", member_id, offers, instance=instance, session_ms=LONGEST_MS // 2)
        self.ask(client, request, version)

    @rule(number=clients, late=st.booleans())
    def sync(self, number: int, *, late: bool) -> None:
        client = self.clients[number]
        given = {member_id: member_id.encode() for member_id in client.leads}
        request = sync_request("g", client.member_id, client.generation - late, given, instance=client.instance)
        self.ask(client, request, 4)

    @rule(number=clients)
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        self.ask(client, heartbeat_request("g", client.member_id, client.generation, instance=client.instance), 4)

    @rule(number=clients, other=clients)
    def leave(self, number: int, other: int) -> None:
        leaving = self.clients[other]
        self.ask(self.clients[number], leave_request("g", (leaving.member_id, leaving.instance)), 5)

    @rule(number=clients)
    def hang_up(self, number: int) -> None:
        client = self.clients[number]
        if client.waiting is not None:
            client.waiting.cancel()
            client.waiting = None

    @rule(delay_ms=st.sampled_from([1, 100, 5_000, 20_000, LONGEST_MS]))
    def wait(self, delay_ms: int) -> None:
        self.harness.clock.advance(delay_ms)
        self.harness.run_soon()
        for client in self.clients:
            self.take(client)

    @rule(crashes=st.booleans())
    def start_again(self, *, crashes: bool) -> None:
        for client in self.clients:
            if client.waiting is not None:
                client.waiting.cancel()
                client.waiting = None
        if crashes:
            self.harness.crash()
        else:
            self.harness.restart()
        self.harness.run_soon()
        self.generation = 0  # A generation without assignments is lost.

    @invariant()
    def the_group_is_whole(self) -> None:
        group = self.harness.services.groups.store.get("g")
        if group is None:
            return
        assert group.generation >= self.generation
        self.generation = group.generation
        check(group)


def check(group: Group) -> None:
    """Check the invariants of a group while no request is being handled."""
    members = group.members
    joining = [member for member in members.values() if member.join is not None]
    syncing = [member for member in members.values() if member.sync is not None]
    assert group.waiting_to_join == len(joining)
    assert not joining or group.is_in(GroupState.PREPARING_REBALANCE)
    assert not syncing or group.is_in(GroupState.COMPLETING_REBALANCE)
    assert not set(joining) & set(syncing)
    assert (group.leader in members) if members else (group.leader is None)
    assert group.static_members == {
        member.group_instance_id: member.member_id
        for member in members.values()
        if member.group_instance_id is not None
    }
    assert all(member.member_id == member_id for member_id, member in members.items())
    assert not set(group.pending) & set(members)
    assert group.pending_sync <= set(members)
    # Every member is removed at some time, because either its session ends or its request times out.
    assert all(deadline.is_set for deadline in group.pending.values())
    for member in members.values():
        assert member.session is not None
        assert member.session.is_set or member.join is not None or member.sync is not None
    if group.is_in(GroupState.EMPTY):
        assert not members
        assert group.protocol_name is None
    if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        assert members
        offered = [{protocol.name for protocol in member.protocols} for member in members.values()]
        assert set.intersection(*offered)


TestGroups = GroupMachine.TestCase
