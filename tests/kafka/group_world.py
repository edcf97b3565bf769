"""One broker as a script about consumer groups sees it: connections by name, and all that was answered.

The same script runs against Kafka and against this broker; what must be alike is the transcript. Names that a broker
makes up (the UUIDs in member ids) are numbered in the order in which they come.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, Final, Self, cast

from minibroker_protocol.coordinator_records import GroupMetadataKey, GroupMetadataValue, decode_versioned
from minibroker_protocol.coordinator_records.group_metadata import read_group_key
from minibroker_protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.coordinators.groups.member_requests import (
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from tests.broker.socket_client import SocketClient
from tests.kafka.topics import batches_of
from tests.patience import PATIENCE_S

_LASTING: Final = {"session_ms": int(PATIENCE_S * 1000), "rebalance_ms": int(PATIENCE_S * 1000)}
"""Timeouts that no member runs into, unless a script gives it shorter ones."""
UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NOT_COMPARED: Final = {"throttle_time_ms", "node_id", "host", "port", "current_state_timestamp"}
COMMITTED: Final = "committed"
_OFFSETS: Final = "__consumer_offsets"
_PAUSE_S: Final = 0.02


class World:
    """One broker, one group in it, and the transcript.

    Args:
        address: of the broker.
        group_id: a name that nobody else uses there.
    """

    def __init__(self, address: tuple[str, int], group_id: str) -> None:
        self._address = address
        self.group_id = group_id
        self.transcript: list[tuple[str, Any]] = []
        self._clients: dict[str, SocketClient] = {}
        self._ends = ExitStack()
        self._uuids: dict[str, str] = {}

    @classmethod
    def transcript_of(
        cls, address: tuple[str, int], script: Callable[[Self], None], group_id: str
    ) -> list[tuple[str, Any]]:
        """The responses of one broker to a script."""
        world = cls(address, group_id)
        try:
            script(world)
            world.leave_nobody()
        finally:
            world.close()
        return world.transcript

    @classmethod
    def transcripts_of(
        cls, addresses: Sequence[tuple[str, int]], script: Callable[[Self], None], group_id: str
    ) -> list[list[tuple[str, Any]]]:
        """The answers of each broker to a script. All are asked at the same time, since scripts wait for sessions."""
        with ThreadPoolExecutor(len(addresses)) as pool:
            asked = [pool.submit(cls.transcript_of, address, script, group_id) for address in addresses]
            return [each.result() for each in asked]

    def leave_nobody(self) -> None:
        """Have all members leave, without a note: Kafka's tools fail on groups whose assignments they cannot read."""
        with suppress(ConnectionError), SocketClient(self._address) as client:  # a name that is too long for Kafka
            (group,) = client.ask(DescribeGroupsRequest(groups=[self.group_id]), 5).groups
            if group.members:
                left = [(each.member_id, each.group_instance_id) for each in group.members]
                client.ask(leave_request(self.group_id, *left), 5)

    def close(self) -> None:
        """Close all connections."""
        self._ends.close()

    def client(self, name: str) -> SocketClient:
        """The connection of this name, opened when it is first asked for."""
        if name not in self._clients:
            self._clients[name] = self._ends.enter_context(SocketClient(self._address))
        return self._clients[name]

    def hang_up(self, name: str) -> None:
        """The client of this name closes its connection; the next request under the name opens another one."""
        self._clients.pop(name).socket.close()

    def send(self, name: str, request: Any, version: int) -> None:
        """Send a request whose answer is taken later."""
        self.client(name).send(request, version)

    def receive(self, name: str) -> Any:
        """Take an answer and note it."""
        _, response = self.client(name).receive()
        self.note(f"{name}: {type(response).__name__}", response)
        return response

    def ask(self, name: str, request: Any, version: int) -> Any:
        """Send a request, take the answer and note it."""
        self.send(name, request, version)
        return self.receive(name)

    def note(self, label: str, value: Any) -> None:
        """Put a line into the transcript."""
        self.transcript.append((label, self._plain(value)))

    def _plain(self, value: Any) -> Any:
        """A value without what differs from broker to broker."""
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {
                name: self._plain(each)
                for name, each in fields.items()
                if name not in _NOT_COMPARED and not (name == "error_message" and fields["error_code"])
            }
        if isinstance(value, list | tuple):
            items = cast("list[Any]", value)
            return sorted(
                (self._plain(each) for each in items), key=repr
            )  # members, groups: neither broker promises an order
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(cast("memoryview", value))
        if isinstance(value, str):
            plain = UUID.sub(lambda found: self._uuids.setdefault(found[0], f"#{len(self._uuids)}"), value)
            return plain.replace(self.group_id, "GROUP")
        return value

    # The requests of members

    def join(self, name: str, member_id: str = "", *args: Any, version: int = 9, **kwargs: Any) -> Any:
        """Join and take the answer."""
        return self.ask(name, join_request(self.group_id, member_id, *args, **{**_LASTING, **kwargs}), version)

    def begin_join(self, name: str, member_id: str = "", *args: Any, version: int = 9, **kwargs: Any) -> None:
        """Send a JoinGroup that will have to wait."""
        self.send(name, join_request(self.group_id, member_id, *args, **{**_LASTING, **kwargs}), version)

    def new_id(self, name: str, *args: Any, **kwargs: Any) -> str:
        """The member id that a dynamic member is given."""
        return str(self.join(name, "", *args, **kwargs).member_id)

    def sync(self, name: str, *args: Any, version: int = 5, **kwargs: Any) -> Any:
        """Sync and take the answer."""
        return self.ask(name, sync_request(self.group_id, *args, **kwargs), version)

    def begin_sync(self, name: str, *args: Any, version: int = 5, **kwargs: Any) -> None:
        """Send a SyncGroup that will have to wait."""
        self.send(name, sync_request(self.group_id, *args, **kwargs), version)

    def heartbeat(
        self, name: str, member_id: str, generation: int, *, instance: str | None = None, version: int = 4
    ) -> int:
        """Send a heartbeat; its error code."""
        request = heartbeat_request(self.group_id, member_id, generation, instance=instance)
        return int(self.ask(name, request, version).error_code)

    def leave(self, name: str, *members: tuple[str, str | None], version: int = 5) -> Any:
        """Have members, (member id, instance id)s, leave."""
        return self.ask(name, leave_request(self.group_id, *members), version)

    def commit(self, name: str, member_id: str, generation: int, *, instance: str | None = None) -> None:
        """Commit an offset of the partition that all scripts share."""
        offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=COMMITTED, partitions=[offset])],
        )
        self.ask(name, request, 8)

    # Looking on

    def describe(self, version: int = 5) -> Any:
        """Describe the group and note it."""
        return self.ask("admin", DescribeGroupsRequest(groups=[self.group_id]), version)

    def until(self, state: str, members: int | None = None) -> None:
        """Wait until the group is in a state, with so many members; at last, note what it looks like."""
        self._until(lambda group: group.group_state == state and (members is None or len(group.members) == members))
        self.describe()

    def until_member(self, member_id: str) -> None:
        """Wait until the group has a member of this id."""
        self._until(lambda group: any(each.member_id == member_id for each in group.members))

    def until_gone(self, member_id: str) -> None:
        """Wait until the group has no member of this id."""
        self._until(lambda group: all(each.member_id != member_id for each in group.members))

    def _until(self, ready: Callable[[Any], bool]) -> None:
        request = DescribeGroupsRequest(groups=[self.group_id])
        self.wait(lambda: ready(self.client("admin").ask(request, 5).groups[0]))

    def wait(self, ready: Callable[[], bool]) -> None:
        """Look until something is so."""
        end = time.monotonic() + PATIENCE_S
        while not ready():
            assert time.monotonic() < end, self.transcript
            time.sleep(_PAUSE_S)  # Kafka does it in its own time

    def list_groups(self, version: int = 5, states: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        """Note how this group is listed."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        response = self.client("admin").ask(request, version)
        ours = [each for each in response.groups if each.group_id == self.group_id]
        self.note(f"list v{version} {states} {types}", [response.error_code, *ours])

    def delete(self, *groups: str, version: int = 2) -> None:
        """Delete groups, this one if none is named."""
        self.ask("admin", DeleteGroupsRequest(groups_names=list(groups) or [self.group_id]), version)

    def find(self, key: str, key_type: int = 0, version: int = 3, keys: Sequence[str] = ()) -> Any:
        """Look for a coordinator and note the answer."""
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=list(keys))
        return self.ask("admin", request, version)

    def records(self) -> None:
        """Note all records that describe the group, in the order in which they were written; None for a tombstone."""
        for batch in batches_of(self.client("admin"), _OFFSETS):
            for record in batch:
                key = read_group_key(record.key or b"")
                if isinstance(key, GroupMetadataKey) and key.group == self.group_id:
                    version = int.from_bytes(record.value[:2], "big") if record.value else None
                    value = decode_versioned(GroupMetadataValue, record.value) if record.value else None
                    self.note(f"record v{version}", value)
