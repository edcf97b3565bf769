"""Finds the holder of the logs in ZooKeeper, where the brokers of older releases register.

`/controller`, an ephemeral node as in Kafka, names the holder, with the address of its link in the field
`minibroker`. Each broker registers its endpoints in `/brokers/ids`, for tools and health checks that look there. The
users in `/config/users`, which scripts create before the brokers start, can log in.
"""

import asyncio
import base64
import contextlib
import json
import logging
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib import parse

from kazoo.client import KazooClient  # type: ignore[import-untyped] # it has no types
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError  # type: ignore[import-untyped] # the same

from minibroker.config.addresses import format_address, is_local, parse_address
from minibroker.security.sasl.scram import HASHES, ScramCredential
from minibroker.server.remote.link import Address, Ask, Claim
from minibroker_container.meeting import ANNOUNCEMENT_INTERVAL_S, PAUSE_S, Registrar, ask, is_known

if TYPE_CHECKING:
    from minibroker.config import BrokerConfig
    from minibroker.server.remote.link import Endpoint

_IDS_OF_SEVERAL: Final = range(2, 5)
"""Ids that files give to further brokers only. Some single brokers have larger ones, such as 101 and 1001."""
_RESOLVE_S: Final = 3.0
"""Seconds to wait until a name can be resolved, because its container may still be starting."""
_REPLICATION_FACTORS: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
_USERS: Final = "/config/users"
_CONTROLLER: Final = "/controller"
_LINK: Final = "minibroker"
"""The field of `/controller` with the address of the holder's link. Kafka's own nodes do not have it."""


_logger: Final = logging.getLogger("minibroker")


class NoZooKeeperError(OSError):
    """The ZooKeeper of `zookeeper.connect` cannot be reached."""


class ZooKeeper:
    """ZooKeeper, as a place to meet.

    Args:
        connect: The value of `zookeeper.connect`: HOST:PORT,...[/CHROOT].
        config: The configuration of this broker.
        registrar: What this process tells others.
        report: Logs the reason why the broker has to wait.
    """

    def __init__(
        self, connect: str, config: "BrokerConfig", registrar: Registrar, report: Callable[[str], None]
    ) -> None:
        self._connect = connect
        hosts, slash, path = connect.partition("/")
        self._chroot = slash + path
        self._addresses = [
            parse_address(host if ":" in host else f"{host}:2181", "zookeeper.connect") for host in hosts.split(",")
        ]
        self._config = config
        self.registrar = registrar
        self.report = report
        self._client: Any = None  # kazoo has no types.

    async def find_claims(self) -> dict[Address, Claim]:
        """Ask the broker that `/controller` names.

        Raises:
            NoZooKeeperError: The cluster needs ZooKeeper, which does not answer.
        """
        if self._client is None:
            await self._reach_zookeeper()
        content = await self._call(self._read_controller)
        if not content:
            return {}
        address = parse_address(content[_LINK], _CONTROLLER)
        claim = await ask(address, Ask())
        return {} if claim is None else {address: claim}

    async def claim_logs(self) -> bool:
        """Create `/controller`. Without a ZooKeeper, this broker is alone."""
        return self._client is None or await self._call(self._create_controller) is True

    async def _call(self, work: Callable[[Any], Any]) -> Any:
        """Call a function with the client on a thread, and return its result, or None if ZooKeeper fails."""
        if self._client is None:
            return None
        try:
            return await asyncio.to_thread(work, self._client)
        except KazooException as error:
            self.report(f"waits for ZooKeeper at {self._connect}: {str(error) or type(error).__name__}")
            return None

    async def _reach_zookeeper(self) -> None:
        """Connect, unless there is no ZooKeeper and this broker can start alone.

        Raises:
            NoZooKeeperError: ZooKeeper does not answer.
        """
        deadline = time.monotonic() + _RESOLVE_S
        while not all(known := [await is_known(address) for address in self._addresses]):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(PAUSE_S)
        if not any(known):
            self._stay_alone("has no host that can be resolved", checks_id=True)
            return
        if all(map(is_local, self._addresses)) and not any(map(_answers, self._addresses)):
            self._stay_alone("is this container, where no ZooKeeper runs", checks_id=False)
            return
        self.report(f"waits for ZooKeeper at {self._connect}")
        timeout_s = self._config.integer("zookeeper.session.timeout.ms") / 1000
        hosts = self._connect.removesuffix(self._chroot)
        # Servers of this image do not share their nodes, so all brokers must ask the same one of several. It may still
        # be starting when the others answer.
        first = format_address(self._addresses[known.index(True)])
        client: Any = KazooClient(first, timeout=timeout_s, randomize_hosts=False)
        connection_timeout_ms = self._config.optional_integer("zookeeper.connection.timeout.ms")
        patience_s = timeout_s if connection_timeout_ms is None else connection_timeout_ms / 1000
        started = time.monotonic()
        self._client = client
        client.start_async()
        while not client.connected:
            waited_s = time.monotonic() - started
            if waited_s > patience_s:
                raise NoZooKeeperError(f"zookeeper.connect: no ZooKeeper answers at {self._connect}")
            if waited_s > patience_s / 2:
                client.set_hosts(hosts)
            await asyncio.sleep(PAUSE_S)
        client.set_hosts(hosts)
        if self._chroot:
            await asyncio.to_thread(client.ensure_path, self._chroot)
            client.chroot = self._chroot

    def _stay_alone(self, reason: str, *, checks_id: bool) -> None:
        """Report that the broker starts without ZooKeeper.

        Args:
            reason: Why there is none.
            checks_id: Whether the id counts, too, if no replication factor is given.

        Raises:
            NoZooKeeperError: A replication factor or the id shows that the cluster has more brokers.
        """
        # Kafka's default for some is 3, but the properties files of its distributions have 1.
        factors = {key: self._config.integer(key) for key in _REPLICATION_FACTORS if key in self._config.given}
        signs = [f"{key} is {factor}" for key, factor in factors.items() if factor > 1]
        node_id = self._config.integer("node.id")
        if checks_id and not factors and node_id in _IDS_OF_SEVERAL:
            signs.append(f"the id of this broker is {node_id}")
        if signs:
            raise NoZooKeeperError(
                f"zookeeper.connect: {self._connect} {reason}, and {signs[0]}, so this broker is one of several; "
                "add the ZooKeeper, or set the replication factors to 1"
            )
        self.report(f"starts alone, since zookeeper.connect={self._connect} {reason}")

    def _read_controller(self, client: Any) -> dict[str, Any]:
        """Return the content of `/controller`, or an empty one if no minibroker has created the node."""
        try:
            content = json.loads(client.get(_CONTROLLER)[0])
        except (NoNodeError, ValueError):
            return {}
        return content if _LINK in content else {}

    def _create_controller(self, client: Any) -> bool:
        """Create `/controller`, replacing one that an earlier session of this broker created.

        Returns:
            Whether the node belongs to this session.
        """
        if _is_own(client, _CONTROLLER):
            return True
        own_id = self.registrar.holder_id
        if self._read_controller(client).get("brokerid") == own_id:
            client.delete(_CONTROLLER)
        host_port = format_address(self._own_address())
        _create(client, _CONTROLLER, {"version": 2, "brokerid": own_id, "timestamp": _now_ms(), _LINK: host_port})
        return _is_own(client, _CONTROLLER)

    def _own_address(self) -> Address:
        """Return the address of this broker's link in the network of ZooKeeper."""
        for address in self._addresses:
            with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0]), self.registrar.port
        return socket.gethostname(), self.registrar.port

    async def read_users(self) -> dict[tuple[str, str], ScramCredential]:
        """Return the credentials that Kafka's tools have written to `/config/users`."""
        return await self._call(_read_users) or {}

    async def announce(self, node_id: int, endpoints: Mapping[str, "Endpoint"]) -> None:
        """Register the broker in `/brokers/ids` in each session, because its nodes are removed with the session."""
        registered: Any = None
        while self._client is not None:
            session = self._client.client_id
            if session not in {None, registered} and await self._call(partial(self._register, node_id, endpoints)):
                registered = session
            await asyncio.sleep(ANNOUNCEMENT_INTERVAL_S)

    def _register(self, node_id: int, endpoints: Mapping[str, "Endpoint"], client: Any) -> bool:
        """Create the nodes of this broker, and return whether they belong to this session."""
        if self.registrar.claim.is_holder and not self._create_controller(client):
            other = self._read_controller(client).get("brokerid")
            self.report(f"has lost {_CONTROLLER} to broker {other}, which may hold other logs of this cluster")
            return False
        path = f"/brokers/ids/{node_id}"
        if not _is_own(client, path):
            first = next(iter(endpoints.values()))
            content: dict[str, Any] = {
                "features": {},
                "listener_security_protocol_map": {name: endpoint.protocol for name, endpoint in endpoints.items()},
                "endpoints": [f"{name}://{endpoint.host}:{endpoint.port}" for name, endpoint in endpoints.items()],
                "jmx_port": -1,
                "port": first.port,
                "host": first.host,
                "version": 5,
                "timestamp": _now_ms(),
            }
            with contextlib.suppress(NoNodeError):
                client.delete(path)
            _create(client, path, content)
        return True

    def close(self) -> None:
        """End the session, which removes its ephemeral nodes."""
        if self._client is not None:
            self._client.stop()
            self._client.close()


def _read_users(client: Any) -> dict[tuple[str, str], ScramCredential]:
    credentials: dict[tuple[str, str], ScramCredential] = {}
    for name in client.get_children(_USERS) if client.exists(_USERS) else ():
        try:
            configs: dict[str, str] = json.loads(client.get(f"{_USERS}/{name}")[0])["config"]
            for mechanism in HASHES.keys() & configs:
                fields = dict(field.split("=", 1) for field in configs[mechanism].split(","))
                salt, *keys = (base64.b64decode(fields[key]) for key in ("salt", "stored_key", "server_key"))
                credential = ScramCredential(salt, keys[0], keys[1], int(fields["iterations"]))
                credentials[mechanism, parse.unquote(name)] = credential
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _logger.warning("%s/%s in ZooKeeper has no credentials of Kafka's form: %r", _USERS, name, error)
    return credentials


def _create(client: Any, path: str, content: Mapping[str, Any]) -> None:
    with contextlib.suppress(NodeExistsError):
        client.create(path, json.dumps(content).encode(), ephemeral=True, makepath=True)


def _is_own(client: Any, path: str) -> bool:
    """Return whether a node was created in the client's current session."""
    stat = client.exists(path)
    return stat is not None and stat.owner_session_id == client.client_id[0]


def _now_ms() -> str:
    return str(int(time.time() * 1000))


def _answers(address: Address) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True
