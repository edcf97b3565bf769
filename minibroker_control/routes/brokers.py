"""Routes for brokers and partition leaders."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from pydantic import Field

from minibroker.cluster.errors import NotFoundError
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.asynchronous_handles import AsyncBrokerNode
from minibroker_control.models import Body, ResponseBody
from minibroker_control.remote import OnBroker
from minibroker_control.routes import calls


class Node(ResponseBody):
    """A broker."""

    node_id: int
    is_up: bool
    address: str = Field(description="The listening address, as HOST:PORT.")
    rack: str | None = Field(description="The broker's `broker.rack`, or null.")


class Nodes(ResponseBody):
    """All brokers."""

    brokers: list[Node]


class Leader(Body):
    """The leader of a partition."""

    node_id: int | None = Field(description="Null while there is no leader.")


class NewLeader(Body):
    """The next leader of a partition."""

    node_id: int = Field(description="The broker becomes a replica if it is not one yet.")


router = APIRouter(tags=["Brokers"])


@router.get("/brokers", openapi_extra=calls("brokers", "brokers.is_up", "brokers.node_id", "brokers.rack"))
async def list_brokers(on_broker: OnBroker) -> Nodes:
    """List all brokers, up or down."""
    nodes = await on_broker.get(lambda broker: [_describe_node(broker, node_id) for node_id in broker.brokers])
    return Nodes(brokers=nodes)


@router.post("/brokers/{node_id}/stop", openapi_extra=calls("brokers.stop"))
async def stop_broker(node_id: int, on_broker: OnBroker) -> Node:
    """Stop a broker: its connections are closed, and other brokers take over the partitions that it leads.

    Has no effect on a stopped broker.
    """
    return await on_broker(lambda broker: _switch(broker, node_id, AsyncBrokerNode.stop))


@router.post("/brokers/{node_id}/start", openapi_extra=calls("brokers.start"))
async def start_broker(node_id: int, on_broker: OnBroker) -> Node:
    """Start a stopped broker again at the same address. Has no effect on a running broker."""
    return await on_broker(lambda broker: _switch(broker, node_id, AsyncBrokerNode.start))


@router.get("/topics/{topic}/partitions/{partition}/leader", openapi_extra=calls("leader"))
async def read_leader(topic: str, partition: int, on_broker: OnBroker) -> Leader:
    """Return the leader of a partition."""
    return Leader(node_id=await on_broker(lambda broker: broker.leader(topic, partition)))


@router.put("/topics/{topic}/partitions/{partition}/leader", openapi_extra=calls("move_leader"))
async def move_leader(topic: str, partition: int, to: NewLeader, on_broker: OnBroker) -> Leader:
    """Make another broker the leader of a partition. Returns 409 if that broker is down."""

    async def work(broker: AsyncOperations) -> int | None:
        await broker.leader(topic, partition)  # This call raises NotFoundError if the partition does not exist.
        node = _find_node(broker, to.node_id)
        await broker.move_leader(topic, partition, node.node_id)
        return await broker.leader(topic, partition)

    return Leader(node_id=await on_broker(work))


async def _switch(broker: AsyncOperations, node_id: int, switch: Callable[[AsyncBrokerNode], Awaitable[None]]) -> Node:
    await switch(_find_node(broker, node_id))
    await broker.services.core.cluster.wait_until_settled()
    return _describe_node(broker, node_id)


def _find_node(broker: AsyncOperations, node_id: int) -> AsyncBrokerNode:
    try:
        return broker.brokers[node_id]
    except KeyError as error:
        raise NotFoundError(error.args[0]) from None


def _describe_node(broker: AsyncOperations, node_id: int) -> Node:
    addresses = dict(zip(broker.brokers, broker.bootstrap_servers.split(","), strict=True))
    node = broker.brokers[node_id]
    return Node(node_id=node_id, is_up=node.is_up, address=addresses[node_id], rack=node.rack)
