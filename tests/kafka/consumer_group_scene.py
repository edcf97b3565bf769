"""A group of consumers that one broker is left with in the midst of what it does, and what each broker says of it."""

from typing import Any, Final

from tests.broker.coordinators.groups.member_requests import subscription
from tests.broker.socket_client import Address
from tests.kafka.consumer_group_world import ConsumerWorld

SESSION_MS: Final = 600_000


class ConsumerScene:
    """A group with two members, of which "a" has to give up something, a static one that is away, and a classic one."""

    def __init__(self, address: Address, name: str, kind: type[ConsumerWorld] = ConsumerWorld) -> None:
        self.name = name
        self._kind = kind
        world = kind(address, name)
        world.create(t=8)
        world.beat("a", 0)
        world.beat("away", 0, instance_id="i")
        world.beat("a", 1, owned={"t": [0, 1, 2, 3]})
        world.beat("away", 2, instance_id="i")
        world.beat("away", -2, instance_id="i")
        world.join("c", "classic", self._protocols(world), session_ms=SESSION_MS, rebalance_ms=SESSION_MS)
        world.beat("a", 2, owned={"t": [0, 1, 2, 3]})
        world.commit_as("classic", 3)
        world.look()
        self.expected = world.transcript[-1]
        world.close()

    def _protocols(self, world: ConsumerWorld) -> tuple[tuple[str, bytes], ...]:
        return (("range", subscription(world.topic("t"))),)

    def look(self, address: Address) -> Any:
        """The response of ConsumerGroupDescribe."""
        world = self._world(address)
        world.look()
        world.close()
        return world.transcript[-1]

    def go_on(self, address: Address) -> list[tuple[str, Any]]:
        """Everybody goes on where he was; what they were told."""
        world = self._world(address)
        world.fetch_as("classic", 3)
        world.beat("again", 0, instance_id="i")
        world.beat("a", 2, owned={"t": [0, 1]})
        world.heartbeat("c", "classic", 3)
        world.beat("a", 3)
        world.look()
        self.expected = world.transcript[-1]
        world.close()
        return world.transcript

    def end(self, address: Address) -> list[tuple[str, Any]]:
        """Everybody goes; what they were told."""
        world = self._world(address)
        world.beat("a", 3)
        world.leave("c", ("classic", None))
        world.beat("a", -1)
        world.beat("again", -1, instance_id="i")
        world.look()
        world.delete()
        world.look()
        world.close()
        return world.transcript

    def _world(self, address: Address) -> ConsumerWorld:
        world = self._kind(address, self.name)
        world.know("t")
        return world
