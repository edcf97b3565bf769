"""How the containers of one cluster find the one that holds the logs.

The containers ask each other on the ports of their controllers, which `controller.quorum.voters` lists, or on those of
Redpanda's seed servers (`minibroker.server.remote.link`). Each data directory names the holder, so that the same broker
holds the logs after a restart, in whatever order the containers start.

In a new cluster, the first listed process decides. A broker holds the logs itself; a controller gives them to the first
broker that offers itself. A listed process whose name cannot be resolved has not started yet, or is not part of the
Compose file: it is left out after ten seconds.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from minibroker.cluster.data_dir import DEFAULT_NODE_ID
from minibroker.cluster.nodes_file import NodesFile
from minibroker.config.addresses import is_local
from minibroker.server.remote import link
from minibroker.server.remote.link import Address, Ask, Claim, Endpoint, LinkError, Offer

_LEFT_OUT_AFTER_S: Final = 10.0
_ANSWER_TIMEOUT_S: Final = 2.0
PAUSE_S: Final = 0.2
ANNOUNCEMENT_INTERVAL_S: Final = 1.0


class ClaimError(ValueError):
    """Two brokers hold logs of one cluster."""

    def __init__(self, node_id: int, holder_id: int | None) -> None:
        super().__init__(
            f"broker {node_id} and broker {holder_id} both hold logs of this cluster; remove the volume of the one "
            "whose records are not needed"
        )


def own_claim(node_id: int | None) -> Claim:
    """Return the claim of a broker that holds the logs itself, which is broker 1 if it has no id."""
    holder_id = DEFAULT_NODE_ID if node_id is None else node_id
    return Claim(holder_id, holder_id=holder_id)


class Registrar:
    """The claim that this process gives to others.

    Args:
        node_id: The id of this process.
        is_controller: Whether this process has no broker, so that it gives the logs to another one.

    Attributes:
        claim: The holder, if it is known here.
    """

    def __init__(self, node_id: int, *, is_controller: bool = False) -> None:
        self.claim = Claim(node_id, is_controller=is_controller)

    def answer(self, message: link.Message, peer: str) -> Claim:
        """Return the claim, after a broker at the host `peer` has asked for it or offered itself.

        Raises:
            LinkError: The message is another one, for which the sender needs the holder.
        """
        if isinstance(message, Offer):
            if self.claim.is_controller and self.claim.holder_id in (None, message.node_id):
                self.claim = Claim(self.claim.node_id, True, message.node_id, (peer, message.port))
        elif not isinstance(message, Ask):
            raise LinkError(f"process {self.claim.node_id} does not hold the logs")
        return self.claim


@dataclass(frozen=True)
class Process:
    """A process of the list.

    Attributes:
        address: The host and port of its link.
        node_id: Its id, or None if the list has none.
    """

    address: Address
    node_id: int | None = None

    def is_node(self, node_id: int | None) -> bool:
        """Return whether this is the process with that id, on this machine if the list has no ids."""
        return is_local(self.address) if self.node_id is None else self.node_id == node_id


class Meeting:
    """Finds the holder by asking the listed processes.

    Args:
        node_id: The id of this broker, or None if the holder gives it one.
        nodes_file: The holder according to the data directory.
        processes: The listed processes, in the order of their precedence.
        port: The port of this broker's link.
        report: Takes the reason for which the broker has to wait.
        left_out_after_s: Seconds after which a process is left out whose name cannot be resolved.
    """

    def __init__(
        self,
        node_id: int | None,
        nodes_file: NodesFile,
        processes: Sequence[Process],
        port: int,
        report: Callable[[str], None],
        left_out_after_s: float = _LEFT_OUT_AFTER_S,
    ) -> None:
        self._own = own_claim(node_id)
        self._node_id = node_id
        self._nodes_file = nodes_file
        self._processes = processes
        self._port = port
        self._report = report
        self._patient_until = asyncio.get_running_loop().time() + left_out_after_s

    async def find_holder(self) -> Claim:
        """Wait until the holder is known. If it is this broker, the claim has no address.

        Raises:
            ClaimError: This broker and another one hold logs of the cluster.
            OSError: The data directory cannot be written.
        """
        while (claim := await self._decide()) is None:  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(PAUSE_S)
        return claim

    async def _decide(self) -> Claim | None:
        others = [process for process in self._processes if not process.is_node(self._node_id)]
        claims = await asyncio.gather(*(self._send(process.address, Ask()) for process in others))
        held = next((claim for claim in claims if claim is not None and claim.holder_id is not None), None)
        if self._nodes_file.is_holder:
            if held is not None and held is not self._own:
                raise ClaimError(self._own.node_id, held.holder_id)
            return self._own
        if held is not None:
            return held
        if self._nodes_file.holder_id is not None:
            self._report(f"waits for broker {self._nodes_file.holder_id}, which holds the logs of this cluster")
            return None
        return await self._decide_anew()

    async def _decide_anew(self) -> Claim | None:
        """Return the holder of a new cluster, or None if the process that decides does not answer yet."""
        is_patient = asyncio.get_running_loop().time() < self._patient_until
        for process in self._processes:
            if process.is_node(self._node_id):
                return self._own
            if is_patient or await is_known(process.address):
                host, port = process.address
                self._report(f"waits for {host}:{port}, which decides who holds the logs of this cluster")
                claim = await self._send(process.address, self._offer)
                return None if claim is None or claim.holder_id is None else claim
        return self._own

    @property
    def _offer(self) -> Offer:
        return Offer(self._own.node_id, self._port)

    async def _send(self, address: Address, message: Ask | Offer) -> Claim | None:
        """Send a message and return the claim, or None if there is no answer."""
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(*address)
                try:
                    writer.write(link.GREETING + link.encode(message))
                    claim = await link.read_message(reader)
                finally:
                    writer.close()
            if isinstance(claim, Claim):
                host, port = claim.address
                if host and port == self._port and is_local(claim.address):
                    return self._own
                # A holder that names no address is the process that was asked.
                return claim if host else Claim(claim.node_id, claim.is_controller, claim.holder_id, address)
        return None

    async def announce(self, node_id: int, endpoints: Mapping[str, Endpoint]) -> None:  # noqa: ARG002 - see ZooKeeperMeeting
        """Tell the controllers again and again that this broker holds the logs, since they may be restarted."""
        while self._nodes_file.is_holder:
            others = [process for process in self._processes if not process.is_node(node_id)]
            await asyncio.gather(*(self._send(process.address, self._offer) for process in others))
            await asyncio.sleep(ANNOUNCEMENT_INTERVAL_S)

    def close(self) -> None:
        """Do nothing: nothing is open between requests."""


async def is_known(address: Address) -> bool:
    """Return whether the name of a host can be resolved."""
    try:
        await asyncio.get_running_loop().getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM)
    except OSError:
        return False
    return True
