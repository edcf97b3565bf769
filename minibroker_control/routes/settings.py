"""Routes for a running broker's configurations, access rules and quotas, and for the metrics of its clients."""

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from minibroker.cluster.errors import collect_warnings
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.records import topic_of
from minibroker.operations.settings import Resource
from minibroker.operations.wording import Int64
from minibroker.security.authorization.acls import AclBinding
from minibroker_control.models import WITH_WARNINGS, Body, ResponseBody, done
from minibroker_control.remote import OnBroker
from minibroker_control.routes import calls

Setting = str | int | float | bool


Changes = Annotated[
    dict[str, Setting | None], Field(description="Values by configuration key. Null restores the default.")
]


class Configuration(Body):
    """The configuration keys to alter. Changes take effect immediately."""

    configs: Changes


class TopicConfiguration(ResponseBody):
    """The configuration of a topic, including the broker's defaults."""

    configs: dict[str, str | None]


class Quota(Body):
    """The quotas of an entity."""

    entity: dict[str, str | None] = Field(
        description="A `user`, a `client-id`, both, or an `ip`. Null stands for the default entity."
    )
    limits: dict[str, float | None] = Field(
        description="Limits per second by Kafka's names, such as `producer_byte_rate`. Null removes a limit."
    )


class NewRule(Body):
    """A rule that allows a principal some operations, or denies them."""

    permission: Literal["allow", "deny"] = "allow"
    principal: str = Field(description="`User:alice` or just the name. `User:*` matches every user.")
    operations: list[str] = Field(description="`read`, `write`, `describe`, ..., or `all`.")
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    cluster: bool = False
    prefixed: bool = Field(default=False, description="Whether the rule applies to all names with this prefix.")
    host: str = Field(default="*", description="Only requests from this address.")


Name = Annotated[str, BeforeValidator(lambda member: member.name)]
"""The name of an enum member."""


class Rule(ResponseBody):
    """An access rule."""

    resource_type: Name
    resource_name: str
    pattern_type: Name
    principal: str
    host: str
    operation: Name
    permission: Name = Field(validation_alias="permission_type")


class RuleList(ResponseBody):
    """Access rules in the order in which they were created."""

    acls: list[Rule]


class Metric(ResponseBody):
    """A metric of a client."""

    name: str
    value: float


class Push(ResponseBody):
    """The metrics that a client has sent in one request."""

    client_instance_id: str
    client_id: str
    client_host: str
    timestamp: Int64 = Field(description="Time of arrival, in milliseconds since the epoch.")
    is_last: bool = Field(description="Whether the client announced that it is closing.")
    metrics: Annotated[list[Metric], BeforeValidator(lambda read: read())]


class Telemetry(ResponseBody):
    """The latest metrics of clients."""

    pushes: list[Push]


router = APIRouter(tags=["Settings"])


@router.post("/configs", status_code=204, responses=WITH_WARNINGS, openapi_extra=calls("configure"))
async def configure(configuration: Configuration, on_broker: OnBroker) -> Response:
    """Alter the broker's dynamic configuration keys. Returns 200 with a warning for an unknown key."""
    with collect_warnings() as warnings:
        await on_broker(lambda broker: broker.configure(configuration.configs))
    return done(warnings)


@router.get("/topics/{topic}/configs", openapi_extra=calls("topic_config"))
async def read_topic_configs(topic: str, on_broker: OnBroker) -> TopicConfiguration:
    """Return the configuration of a topic."""
    configs = await on_broker(lambda broker: broker.topic_config(topic_of(broker.services, topic).name))
    return TopicConfiguration(configs=configs)


@router.post("/topics/{topic}/configs", status_code=204, openapi_extra=calls("configure_topic"))
async def configure_topic(topic: str, configuration: Configuration, on_broker: OnBroker) -> None:
    """Alter configuration keys of a topic."""
    await on_broker(lambda broker: broker.configure_topic(topic_of(broker.services, topic).name, configuration.configs))


@router.post("/quotas", status_code=204, openapi_extra=calls("set_quota"))
async def set_quota(quota: Quota, on_broker: OnBroker) -> None:
    """Set or remove client quotas."""
    await on_broker(lambda broker: broker.set_quota(quota.entity, quota.limits))


@router.get("/acls", openapi_extra=calls("acls"))
async def list_acls(on_broker: OnBroker) -> RuleList:
    """List all access rules."""
    return _list_rules(await on_broker(lambda broker: broker.acls()))


@router.post("/acls", status_code=201, openapi_extra=calls("allow", "deny"))
async def create_acls(new: NewRule, on_broker: OnBroker) -> RuleList:
    """Allow or deny operations. The response has a rule for each operation."""
    given_fields = new.model_dump(include={"topic", "group", "transactional_id", "cluster", "prefixed", "host"})
    resource = Resource(**{name: value for name, value in given_fields.items() if value is not None})  # type: ignore[typeddict-item]  # the names are those of the model

    async def work(broker: AsyncOperations) -> list[AclBinding]:
        make = broker.allow if new.permission == "allow" else broker.deny
        return await make(new.principal, *new.operations, **resource)

    return _list_rules(await on_broker(work))


@router.delete("/acls", status_code=204, openapi_extra=calls("remove_acls"))
async def delete_acls(on_broker: OnBroker) -> None:
    """Delete all access rules."""

    async def work(broker: AsyncOperations) -> None:
        await broker.remove_acls(await broker.acls())

    await on_broker(work)


@router.get("/telemetry", openapi_extra=calls("telemetry"))
async def read_telemetry(on_broker: OnBroker) -> Telemetry:
    """Return the latest metrics that clients have sent about themselves (KIP-714)."""
    return Telemetry.model_validate({"pushes": await on_broker(lambda broker: broker.telemetry())})


def _list_rules(acls: list[AclBinding]) -> RuleList:
    return RuleList.model_validate({"acls": acls})
