"""How the brokers of one cluster find the one that holds the logs.

Each data directory names the holder, so that the same broker holds the logs after a restart, whichever process
starts first. In a new cluster, the place where the brokers meet decides: the listed processes (`Voters`) or
ZooKeeper (`minibroker_container.zookeeper_meeting`).
"""

import asyncio
import contextlib
import re
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Union

from minibroker.cluster.data_dir import DEFAULT_NODE_ID
from minibroker.cluster.node import NodesFile
from minibroker.config.addresses import format_address, is_local, parse_address
from minibroker.server.remote import link
from minibroker.server.remote.link import Address, Ask, Claim, Endpoint, LinkError

if TYPE_CHECKING:
    from minibroker.security.sasl.scram import ScramCredential
    from minibroker.server.remote.holder import Holder
    from minibroker_container.zookeeper_meeting import ZooKeeper

PAUSE_S: Final = 0.2
ANNOUNCEMENT_INTERVAL_S: Final = 1.0
_PATIENCE_S: Final = 10.0
"""Seconds to wait for a listed process whose name cannot be resolved, and for an answer of this one."""
_ANSWER_TIMEOUT_S: Final = 2.0
Place = Union["Voters", "ZooKeeper"]
"""Where the brokers of a cluster meet."""
_PROCESS: Final = re.compile(r"(?:(?P<id>\d+)@)?(?P<address>[^@]+)", re.ASCII)


class ClaimError(ValueError):
    """Two brokers hold logs of one cluster, or have one node id."""


class Registrar:
    """Answers the questions of other processes about the holder.

    Args:
        node_id: The id of this process, or -1.
        is_controller: Whether this process has no broker, and gives the logs to the first broker that makes an
            offer.
        is_holder: Whether this process holds the logs according to its data directory.

    Attributes:
        claim: What this process knows of the holder.
        holder: The holder's side of the link, or None until the logs are open.
        port: The port of this process's link, once it is open.
    """

    def __init__(self, node_id: int, *, is_controller: bool = False, is_holder: bool = False) -> None:
        # Set the claim first, because two holders that start at the same time must see each other.
        self.claim = Claim(node_id, uuid.uuid4().hex, is_holder)
        self.holder: Holder | None = None
        self.port = 0
        self._is_controller = is_controller
        self._chosen_id: int | None = None

    @property
    def holder_id(self) -> int:
        """The id of this broker if it holds the logs, even if none is configured."""
        return self.claim.node_id if self.claim.node_id >= 0 else DEFAULT_NODE_ID

    def begin(self, holder: "Holder") -> None:
        """Accept members."""
        self.claim = Claim(self.holder_id, self.claim.incarnation, is_holder=True)
        self.holder = holder

    async def serve(self, message: link.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a question about the holder, or pass another request on to the holder.

        Raises:
            LinkError: The request is refused.
        """
        if isinstance(message, Ask):
            if self._is_controller and message.port and self._chosen_id in {None, message.node_id}:
                self._chosen_id = message.node_id
                holder = writer.get_extra_info("peername")[0], message.port
                self.claim = Claim(self.claim.node_id, self.claim.incarnation, holder=holder)
            writer.write(link.encode(self.claim))
            await writer.drain()
        elif self.holder is None:
            raise LinkError(f"process {self.claim.node_id} does not hold the logs")
        else:
            await self.holder.serve(message, reader, writer)


async def ask(address: Address, question: Ask) -> Claim | None:
    """Ask a process about the holder, or return None if it does not answer."""
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*address)
            with contextlib.closing(writer):
                writer.write(link.GREETING + link.encode(question))
                claim = await link.read_message(reader)
        if isinstance(claim, Claim):
            return claim
    return None


async def find_holder(place: Place, nodes_file: NodesFile) -> Address | None:
    """Wait until the holder is known. Return the address of its link, or None if it is this broker.

    Args:
        place: Where the brokers meet.
        nodes_file: The holder according to the data directory.

    Raises:
        ClaimError: Another broker holds logs of the cluster as well, or has the id of this one.
        OSError: The cluster has other brokers, and the place cannot be reached.
    """
    own = place.registrar.claim
    while True:
        for address, claim in (await place.find_claims()).items():
            if claim.incarnation == own.incarnation:
                continue
            other = f"the broker at {format_address(address)}"
            if claim.node_id == own.node_id >= 0:
                this = format_address((socket.gethostname(), place.registrar.port))
                raise ClaimError(f"node.id {own.node_id} is that of {other} and of this one at {this}; give another")
            if claim.is_holder and own.is_holder:
                raise ClaimError(
                    f"broker {own.node_id} and broker {claim.node_id} both hold logs of this cluster; remove the "
                    "volume of the one whose records are not needed"
                )
            if claim.is_holder:
                return address
        if own.is_holder or nodes_file.holder_id is None:
            if await place.claim_logs():
                return None
        else:
            place.report(f"waits for broker {nodes_file.holder_id}, which holds the logs of this cluster")
        await asyncio.sleep(PAUSE_S)


class Voters:
    """The processes that `controller.quorum.voters` or Redpanda's seed servers list, as a place to meet.

    In a new cluster, the first listed process decides. A broker chooses itself; a controller chooses the first
    broker that makes an offer. A process whose name cannot be resolved has not started yet, or is not part of the
    Compose file: it is skipped after ten seconds.

    Args:
        places: `[ID@]HOST:PORT` of each process, in the order of their precedence.
        registrar: What this process tells others.
        report: Logs the reason why the broker has to wait.
        patience_s: Seconds after which a process whose name cannot be resolved is skipped.

    Raises:
        ValueError: A place does not have this form.
    """

    def __init__(
        self,
        places: Sequence[str],
        registrar: Registrar,
        report: Callable[[str], None],
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._processes = [_parse_process(place) for place in places]
        self.registrar = registrar
        self.report = report
        self._patient_until = asyncio.get_running_loop().time() + patience_s

    async def find_claims(self) -> dict[Address, Claim]:
        """Ask all processes, and the holders that they name. Return the answers by address."""
        addresses = {address: None for address, _ in self._processes}
        claims = await self._ask_all(addresses)
        holders = {claim.holder: None for claim in claims.values() if claim.holder is not None}
        return claims | await self._ask_all(holders)

    async def _ask_all(self, addresses: Mapping[Address, None]) -> dict[Address, Claim]:
        claims = await asyncio.gather(*(ask(address, Ask()) for address in addresses))
        return {address: claim for address, claim in zip(addresses, claims, strict=True) if claim is not None}

    async def claim_logs(self) -> bool:
        """Offer this broker to the process that decides. Return whether this broker is the holder now."""
        own = self.registrar.claim
        if own.is_holder:
            return True
        is_patient = asyncio.get_running_loop().time() < self._patient_until
        for address, node_id in self._processes:
            claim = await ask(address, Ask(own.node_id, self.registrar.port))
            if claim is not None and claim.holder is not None:
                claim = await ask(claim.holder, Ask())
            if claim is not None and claim.incarnation == own.incarnation:
                return True
            if claim is None and not is_patient:
                # A broker may be unable to reach itself at the address that is listed for it.
                if node_id == own.node_id if node_id >= 0 else is_local(address):
                    return True
                if not await is_known(address):
                    continue
            self.report(f"waits for {format_address(address)}, which decides who holds the logs of this cluster")
            return False
        return True

    async def read_users(self) -> Mapping[tuple[str, str], "ScramCredential"]:
        """Return nothing: the holder has all credentials."""
        return {}

    async def announce(self, node_id: int, endpoints: Mapping[str, Endpoint]) -> None:  # noqa: ARG002 - see ZooKeeper
        """Repeat to the controllers that this broker holds the logs, because they may have been restarted."""
        while self.registrar.claim.is_holder:
            await asyncio.gather(*(ask(address, Ask(node_id, self.registrar.port)) for address, _ in self._processes))
            await asyncio.sleep(ANNOUNCEMENT_INTERVAL_S)

    def close(self) -> None:
        """Do nothing: nothing is open between requests."""


def _parse_process(place: str) -> tuple[Address, int]:
    """Parse `[ID@]HOST:PORT`. Without an id the result has -1.

    Raises:
        ValueError: The text does not have this form.
    """
    match = _PROCESS.fullmatch(place)
    if match is None:
        raise ValueError(f"--meet: {place!r} is not [ID@]HOST:PORT")
    return parse_address(match["address"], "--meet"), int(match["id"] or -1)


async def is_known(address: Address) -> bool:
    """Return whether the name of a host can be resolved."""
    try:
        await asyncio.get_running_loop().getaddrinfo(*address, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return True
