"""Routes for topics."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from minibroker.cluster.errors import OperationError
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.topics import TopicDescription, topics_page
from minibroker.operations.topics import describe_topic as describe
from minibroker_control.models import Body, ResponseBody, describes
from minibroker_control.remote import OnBroker
from minibroker_control.routes import calls


class NewTopic(Body):
    """The topic to create."""

    name: str | None = Field(default=None, description="The name. Pass either a name or a prefix.")
    prefix: str | None = Field(default=None, description="Random digits are appended to it to make an unused name.")
    partitions: int | None = Field(default=None, description="The number of partitions, or null for the default.")
    replication_factor: int | None = Field(
        default=None, description="The replication factor, or null for the default. A single broker always uses 1."
    )
    configs: dict[str, str | int | float | bool] = Field(default={}, description="Values by key, like `retention.ms`.")


@describes(TopicDescription)
class Topic(ResponseBody):
    """A topic."""


class TopicList(ResponseBody):
    """A page of topics, sorted by name."""

    topics: list[Topic]
    next_after: str | None = Field(description="The `after` of the next page, or null after the last page.")


router = APIRouter(tags=["Topics"])

_MAX_LISTED: Final = 1_000
"""The number of topics described in one turn of the broker's event loop."""


@router.get("/topics", openapi_extra=calls("topics"))
async def list_topics(
    on_broker: OnBroker,
    after: Annotated[str | None, Query(description="Skips this name and all names sorted before it.")] = None,
    limit: Annotated[int, Query(ge=1, le=_MAX_LISTED, description="The maximum number of topics.")] = _MAX_LISTED,
) -> TopicList:
    """List topics by name. To continue, pass `next_after` as `after`."""
    topics, next_after = await on_broker.get(lambda broker: topics_page(broker.services, after or "", limit))
    return TopicList.model_validate({"topics": topics, "next_after": next_after})


@router.post("/topics", status_code=201, openapi_extra=calls("create_topic", "fresh_topic"))
async def create_topic(new: NewTopic, on_broker: OnBroker) -> Topic:
    """Create a topic with the given name, or with an unused name that starts with a prefix."""
    if (new.name is None) is (new.prefix is None):
        raise OperationError("a topic needs either a name or a prefix")

    async def work(broker: AsyncOperations) -> TopicDescription:
        factor, configs = new.replication_factor, new.configs
        if new.name is not None:
            return await broker.create_topic(new.name, new.partitions, replication_factor=factor, configs=configs)
        name = await broker.fresh_topic(new.prefix or "", new.partitions, replication_factor=factor, configs=configs)
        return describe(broker.services, name)

    return Topic.model_validate(await on_broker(work))


@router.get("/topics/{topic}", openapi_extra=calls("topics"))
async def describe_topic(topic: str, on_broker: OnBroker) -> Topic:
    """Return one topic."""
    return Topic.model_validate(await on_broker.get(lambda broker: describe(broker.services, topic)))


@router.delete("/topics/{topic}", status_code=204, openapi_extra=calls("delete_topic"))
async def delete_topic(topic: str, on_broker: OnBroker) -> None:
    """Delete a topic and the offsets that groups have committed for it."""
    await on_broker(lambda broker: broker.delete_topic(topic))
