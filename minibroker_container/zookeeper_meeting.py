"""Finds the holder of the logs in ZooKeeper, where the brokers of older releases register.

`/controller`, an ephemeral node as in Kafka, names the holder, with the address of its link in the field
`minibroker`. Each broker registers its endpoints in `/brokers/ids`, for tools and health checks that look there.
"""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kazoo.client import KazooClient  # type: ignore[import-untyped] # it has no types
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError  # type: ignore[import-untyped] # the same

from minibroker.cluster.nodes_file import NodesFile
from minibroker.config.addresses import is_local
from minibroker.server.remote.link import Address, Claim
from minibroker_container.meeting import ANNOUNCEMENT_INTERVAL_S, PAUSE_S, ClaimError, is_known, own_claim

if TYPE_CHECKING:
    from minibroker.config import BrokerConfig
    from minibroker.server.remote.link import Endpoint

_RESOLVE_S: Final = 3.0
"""Seconds for which a name may be unknown, because its container is being started."""
_REPLICATION_FACTORS: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
_CONTROLLER: Final = "/controller"


class NoZooKeeperError(OSError):
    """The ZooKeeper of `zookeeper.connect` cannot be reached."""


class ZooKeeperMeeting:
    """Finds the holder in ZooKeeper.

    Args:
        connect: The value of `zookeeper.connect`: HOST:PORT,...[/CHROOT].
        node_id: The id of this broker, or None if the holder gives it one.
        config: The configuration of this broker.
        nodes_file: The holder according to the data directory.
        port: The port of this broker's link.
        report: Takes the reason for which the broker has to wait.
    """

    def __init__(
        self,
        connect: str,
        node_id: int | None,
        config: "BrokerConfig",
        nodes_file: NodesFile,
        port: int,
        report: Callable[[str], None],
    ) -> None:
        self._connect = connect
        hosts, slash, path = connect.partition("/")
        self._chroot = slash + path
        self._addresses = [_split(host) for host in hosts.split(",")]
        self._config = config
        self._own = own_claim(node_id)
        self._nodes_file = nodes_file
        self._port = port
        self._report = report
        self._client: Any = None  # kazoo has no types.

    async def find_holder(self) -> Claim:
        """Wait until the holder is known. If it is this broker, the claim has no address.

        Raises:
            ClaimError: This broker and another one hold logs of the cluster.
            NoZooKeeperError: The cluster needs ZooKeeper, which does not answer.
            OSError: The data directory cannot be written.
        """
        if self._client is None and not await self._reach_zookeeper():
            return self._own
        while (claim := await asyncio.to_thread(self._decide)) is None:  # noqa: ASYNC110 - a watch would need a timeout, too
            await asyncio.sleep(PAUSE_S)
        return claim

    async def _reach_zookeeper(self) -> bool:
        """Connect. Return False if ZooKeeper was left out, which a single broker does not mind.

        Raises:
            NoZooKeeperError: ZooKeeper does not answer.
        """
        deadline = time.monotonic() + _RESOLVE_S
        while not any([await is_known(address) for address in self._addresses]):
            if time.monotonic() > deadline:
                return self._stay_alone("has no host that can be resolved")
            await asyncio.sleep(PAUSE_S)
        if all(map(is_local, self._addresses)) and not any(map(_answers, self._addresses)):
            return self._stay_alone("is this container, where no ZooKeeper runs")
        self._report(f"waits for ZooKeeper at {self._connect}")
        timeout_s = self._config.integer("zookeeper.session.timeout.ms") / 1000
        client: Any = KazooClient(self._connect.removesuffix(self._chroot), timeout=timeout_s)
        connection_timeout_ms = self._config.optional_integer("zookeeper.connection.timeout.ms")
        deadline = time.monotonic() + (timeout_s if connection_timeout_ms is None else connection_timeout_ms / 1000)
        self._client = client
        client.start_async()
        while not client.connected:
            if time.monotonic() > deadline:
                raise NoZooKeeperError(f"zookeeper.connect: no ZooKeeper answers at {self._connect}")
            await asyncio.sleep(PAUSE_S)
        if self._chroot:
            await asyncio.to_thread(client.ensure_path, self._chroot)
            client.chroot = self._chroot
        return True

    def _stay_alone(self, reason: str) -> bool:
        """Report that the broker starts without ZooKeeper.

        Raises:
            NoZooKeeperError: A replication factor shows that the cluster has more brokers.
        """
        for key in _REPLICATION_FACTORS:
            # Kafka's default for some is 3, but the properties files of its distributions have 1.
            if key in self._config.given and self._config.integer(key) > 1:
                raise NoZooKeeperError(
                    f"zookeeper.connect: {self._connect} {reason}, and {key} is {self._config.integer(key)}, so this "
                    "broker is one of several; add the ZooKeeper, or set the replication factors to 1"
                )
        self._report(f"starts alone, since zookeeper.connect={self._connect} {reason}")
        return False

    def _decide(self) -> Claim | None:
        try:
            return self._find_claim(self._client)
        except KazooException as error:
            self._report(f"waits for ZooKeeper at {self._connect}: {str(error) or type(error).__name__}")
        return None

    def _find_claim(self, client: Any) -> Claim | None:
        if self._nodes_file.holder_id is None or self._nodes_file.is_holder:
            with contextlib.suppress(NodeExistsError):
                self._create_controller(client)
                return self._own
        try:
            content = json.loads(client.get(_CONTROLLER)[0])
            holder_id, address = int(content["brokerid"]), _split(content["minibroker"])
        except (NoNodeError, ValueError, KeyError):
            self._report(f"waits for broker {self._nodes_file.holder_id}, which holds the logs of this cluster")
            return None
        is_own = holder_id == self._own.node_id
        if self._nodes_file.is_holder and not is_own:
            raise ClaimError(self._own.node_id, holder_id)
        if is_own and (self._nodes_file.is_holder or address == self._address or not _answers(address)):
            with contextlib.suppress(NoNodeError):
                client.delete(_CONTROLLER)  # It is left from before a restart.
            return None
        return Claim(holder_id, holder_id=holder_id, address=address)

    @property
    def _address(self) -> Address:
        """The address of this broker's link in the network of ZooKeeper."""
        for address in self._addresses:
            with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0]), self._port
        return socket.gethostname(), self._port

    def _create_controller(self, client: Any) -> None:
        """Create `/controller`.

        Raises:
            KazooException: The node exists, or ZooKeeper does not answer.
        """
        host, port = self._address
        content = {
            "version": 2,
            "brokerid": self._own.node_id,
            "timestamp": str(int(time.time() * 1000)),
            "minibroker": f"{host}:{port}",
        }
        client.create(_CONTROLLER, json.dumps(content).encode(), ephemeral=True, makepath=True)

    async def announce(self, node_id: int, endpoints: "Mapping[str, Endpoint]") -> None:
        """Keep the broker registered in `/brokers/ids`, even if ZooKeeper loses its session or its nodes."""
        while self._client is not None:
            with contextlib.suppress(KazooException):
                await asyncio.to_thread(self._register, self._client, node_id, endpoints)
            await asyncio.sleep(ANNOUNCEMENT_INTERVAL_S)

    def _register(self, client: Any, node_id: int, endpoints: "Mapping[str, Endpoint]") -> None:
        if self._nodes_file.is_holder:
            with contextlib.suppress(NodeExistsError):
                self._create_controller(client)
        path = f"/brokers/ids/{node_id}"
        stat = client.exists(path)
        if stat is not None and stat.owner_session_id == client.client_id[0]:
            return
        first = next(iter(endpoints.values()))
        content: dict[str, Any] = {
            "features": {},
            "listener_security_protocol_map": {name: endpoint.protocol for name, endpoint in endpoints.items()},
            "endpoints": [f"{name}://{endpoint.host}:{endpoint.port}" for name, endpoint in endpoints.items()],
            "jmx_port": -1,
            "port": first.port,
            "host": first.host,
            "version": 5,
            "timestamp": str(int(time.time() * 1000)),
        }
        with contextlib.suppress(NoNodeError):
            client.delete(path)
        client.create(path, json.dumps(content).encode(), ephemeral=True, makepath=True)

    def close(self) -> None:
        """End the session, with which the ephemeral nodes go."""
        if self._client is not None:
            self._client.stop()
            self._client.close()


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.strip().rpartition(":")
    return (host, int(port)) if host else (port, 2181)


def _answers(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True
