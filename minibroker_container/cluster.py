"""A broker of a cluster whose brokers are processes of their own: it holds the logs, or passes its clients on."""

import asyncio
import contextlib
import logging
import os
import re
import socket
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from minibroker.cli.kafka_lines import write_broker_lines
from minibroker.cluster.listeners import WILDCARDS
from minibroker.cluster.nodes_file import NodesFile
from minibroker.config.addresses import parse_address
from minibroker.server.remote import link
from minibroker.server.remote.holder import Holder, LinkPort
from minibroker.server.remote.link import Address, Ask, Claim, Endpoint, Offer
from minibroker.server.remote.member import Member
from minibroker_container import health
from minibroker_container.meeting import Meeting, Process, Registrar, own_claim
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.installation_hints import missing

with lazy:
    from minibroker_container import zookeeper_meeting

if TYPE_CHECKING:
    from minibroker.broker import Broker

_PROCESS: Final = re.compile(r"(?:(?P<id>\d+)@)?(?P<address>[^@]+)", re.ASCII)
_ZOOKEEPER: Final = "zookeeper://"
_ANY_HOST: Final = "0.0.0.0"  # noqa: S104 - the other containers reach it
_T = TypeVar("_T")
_logger: Final = logging.getLogger("minibroker")


class _OwnClaimError(Exception):
    """A broker that has not joined yet has found that it holds the logs itself.

    Attributes:
        claim: Its claim.
    """

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim = claim


class _Meeting(Protocol):
    """Finds the holder; see `Meeting` and `ZooKeeperMeeting`."""

    async def find_holder(self) -> Claim: ...

    async def announce(self, node_id: int, endpoints: Mapping[str, Endpoint]) -> None: ...

    def close(self) -> None: ...


async def meet(
    broker: "Broker", places: Sequence[str], link_address: str | None, stop: asyncio.Event
) -> contextlib.AbstractAsyncContextManager[None] | None:
    """Find the holder of the logs. If it is another broker, pass clients on to it until `stop` is set.

    Args:
        broker: The broker, which has not been started.
        places: `[ID@]HOST:PORT` of each process that is asked, or one `zookeeper://CONNECT`.
        link_address: HOST:PORT of this broker's link, or None for a free port.
        stop: The event that ends all waiting.

    Returns:
        A context for the time in which this broker runs and holds the logs, or None once `stop` is set.

    Raises:
        ClaimError: This broker and another one hold logs of the cluster.
        RegistrationError: The holder refuses this broker.
        OSError: An address is not available, or the data directory cannot be written.
        ValueError: An address is invalid.
    """
    cluster = _Cluster(broker, places, link_address)
    claim = await _unless_set(stop, cluster.find_holder())
    while claim is not None and claim.address[0]:
        claim = await _unless_set(stop, cluster.join(claim))
    if claim is None:
        return None
    cluster.keep_claim(claim)
    return cluster.held(claim)


class _Cluster:
    """The part that a broker has in its cluster."""

    def __init__(self, broker: "Broker", places: Sequence[str], link_address: str | None) -> None:
        self._broker = broker.asynchronous
        self._places = places
        options = self._broker.checked_options
        self._nodes_file = NodesFile(options.data_dir)
        configured_id = options.config.integer("node.id")
        self._node_id = self._nodes_file.node_id if configured_id < 0 else configured_id
        self._registrar = Registrar(configured_id)
        if self._nodes_file.is_holder:  # Of two holders that start together, both have to see the other one.
            self._registrar.claim = own_claim(self._node_id)
        self._holder: Holder | None = None
        host, port = (_ANY_HOST, 0) if link_address is None else parse_address(link_address, "--link")
        self._link = LinkPort(host, port, self._answer)
        self._meeting: _Meeting | None = None
        self._reason = ""

    async def _answer(self, message: link.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._holder is None or isinstance(message, Ask | Offer):
            claim = self._registrar.answer(message, writer.get_extra_info("peername")[0])
            writer.write(link.encode(claim))
            await writer.drain()
        else:
            await self._holder.serve(message, reader, writer)

    async def find_holder(self) -> Claim:
        """Open the link, and wait until the holder of the logs is known."""
        try:
            return await self._find_holder()
        except BaseException:
            await self.close()
            raise

    async def _find_holder(self) -> Claim:
        await self._link.open()
        if self._places[0].startswith(_ZOOKEEPER):
            connect = self._places[0].removeprefix(_ZOOKEEPER)
            config = self._broker.checked_options.config
            try:
                create_meeting = zookeeper_meeting.ZooKeeperMeeting
            except ModuleNotFoundError:
                raise ValueError(f"--meet {self._places[0]}: {missing('kazoo', 'zookeeper')}") from None
            self._meeting = create_meeting(
                connect, self._node_id, config, self._nodes_file, self._link.port, self._report
            )
        else:
            processes = [_parse_process(place) for place in self._places]
            self._meeting = Meeting(self._node_id, self._nodes_file, processes, self._link.port, self._report)
        return await self._meeting.find_holder()

    def keep_claim(self, claim: Claim) -> None:
        """Write into the data directory that this broker holds the logs, before the broker opens the directory."""
        self._nodes_file.keep_holder(claim.node_id, claim.node_id)

    def _report(self, reason: str) -> None:
        """Log why the broker has to wait, once for each reason."""
        if reason != self._reason:
            self._reason = reason
            health.report(f"waiting: this broker {reason}\n")
            _logger.warning("this broker %s", reason)

    @contextlib.asynccontextmanager
    async def held(self, claim: Claim) -> AsyncGenerator[None]:
        """Let other brokers join this one, which holds the logs and runs."""
        assert self._meeting is not None
        self._holder = Holder(self._broker.server)
        self._registrar.claim = claim
        announcing = asyncio.ensure_future(self._meeting.announce(claim.node_id, self._endpoints()))
        try:
            yield
        finally:
            announcing.cancel()
            await self.close()

    async def close(self) -> None:
        """Stop answering other processes."""
        await self._link.close()
        if self._meeting is not None:
            self._meeting.close()

    def _endpoints(self) -> dict[str, Endpoint]:
        """Return the address that clients get for each listener."""
        endpoints: dict[str, Endpoint] = {}
        for listener in self._broker.checked_options.listeners:
            own_host = socket.gethostname() if listener.host in WILDCARDS else listener.host
            host, port = listener.advertised or (own_host, listener.port)
            endpoints[listener.name] = Endpoint(host, port or listener.port, listener.protocol)
        return endpoints

    async def join(self, claim: Claim) -> Claim:
        """Pass clients on to the holder until the task is cancelled.

        Returns:
            The claim of this broker, if it holds the logs because the holder has gone before it could join.
        """
        options = self._broker.checked_options
        endpoints = self._endpoints()
        meeting = self._meeting
        assert meeting is not None
        known = [claim]
        announcements: list[asyncio.Future[None]] = []  # A task that nobody refers to may be collected.

        async def find_holder() -> Address:
            found = known.pop() if known else await meeting.find_holder()
            if not found.address[0]:
                raise _OwnClaimError(found)
            return found.address

        member = Member(options.config, self._node_id, options.listeners, endpoints, find_holder)

        def announce() -> None:
            assert claim.holder_id is not None
            self._nodes_file.keep_holder(claim.holder_id, member.node_id)
            addresses = {name: f"{host}:{port}" for name, (host, port) in member.addresses.items()}
            bootstrap = next(iter(addresses.values()))
            ready = f"bootstrap={bootstrap} data-dir={options.data_dir} pid={os.getpid()}"
            ids = f"node-id={member.node_id} holder={claim.holder_id}"
            protocols = self._broker.listener_protocols
            health.report_ports((protocols[name], address) for name, address in addresses.items())
            print(f"minibroker ready: {ready} {ids}", flush=True)  # noqa: T201 - programs wait for this line
            announcements.append(asyncio.ensure_future(meeting.announce(member.node_id, endpoints)))
            if os.environ.get("MINIBROKER_LOG_LINES") in {"kafka", "redpanda"}:
                write_broker_lines(member.node_id, list(addresses.items()))

        try:
            await member.run(announce)
        except _OwnClaimError as own:
            return own.claim
        except BaseException:
            await self.close()
            raise


def _parse_process(place: str) -> Process:
    """Parse `[ID@]HOST:PORT`.

    Raises:
        ValueError: The text has another form.
    """
    match = _PROCESS.fullmatch(place)
    if match is None:
        raise ValueError(f"--meet: {place!r} is not [ID@]HOST:PORT")
    return Process(parse_address(match["address"], "--meet"), None if match["id"] is None else int(match["id"]))


async def _unless_set(stop: asyncio.Event, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Return the result of `work`, or None if `stop` is set earlier."""
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    return None if task.cancelled() else task.result()
