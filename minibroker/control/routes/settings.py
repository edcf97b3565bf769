"""Settings of a running broker: configurations, rules, quotas; and the metrics of its clients."""

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from minibroker.cluster.errors import collected_warnings
from minibroker.control.models import WITH_WARNINGS, About, Body, done
from minibroker.control.remote import OnBroker
from minibroker.control.routes import calls
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.records import topic_of
from minibroker.operations.settings import Resource
from minibroker.operations.wording import Int64
from minibroker.security.authorization.acls import AclBinding

Setting = str | int | float | bool


Changes = Annotated[
    dict[str, Setting | None], Field(description="By Kafka's names of keys; null takes back what was altered.")
]


class Configuration(Body):
    """Keys to be altered; they count at once."""

    configs: Changes


class TopicConfiguration(About):
    """The configuration of a topic, with the broker's defaults."""

    configs: dict[str, str | None]


class Quota(Body):
    """Limits of an entity."""

    entity: dict[str, str | None] = Field(
        description="A `user`, a `client-id`, both, or an `ip`; null is the default of its kind."
    )
    limits: dict[str, float | None] = Field(
        description="By Kafka's names, per second: `producer_byte_rate`; null removes one."
    )


class NewRule(Body):
    """A rule: an operation that a principal may do, or may not."""

    permission: Literal["allow", "deny"] = "allow"
    principal: str = Field(description="`User:alice`, or just the name; `User:*` is every user.")
    operations: list[str] = Field(description="`read`, `write`, `describe`, ..., or `all`.")
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    cluster: bool = False
    prefixed: bool = Field(default=False, description="For all names that begin so.")
    host: str = Field(default="*", description="From this address only.")


Name = Annotated[str, BeforeValidator(lambda member: member.name)]
"""Of a member of an enum."""


class Rule(About):
    """One rule."""

    resource_type: Name
    resource_name: str
    pattern_type: Name
    principal: str
    host: str
    operation: Name
    permission: Name = Field(validation_alias="permission_type")


class RuleList(About):
    """Rules, in the order in which they were made."""

    acls: list[Rule]


class Metric(About):
    """A metric of a client."""

    name: str
    value: float


class Push(About):
    """The metrics that a client has sent at once."""

    client_instance_id: str
    client_id: str
    client_host: str
    timestamp: Int64 = Field(description="ms since the epoch, when it came.")
    is_last: bool = Field(description="The client has said that it is going.")
    metrics: Annotated[list[Metric], BeforeValidator(lambda read: read())]


class Telemetry(About):
    """The last that clients have sent."""

    pushes: list[Push]


router = APIRouter(tags=["Settings"])


@router.post("/configs", status_code=204, responses=WITH_WARNINGS, openapi_extra=calls("configure"))
async def configure(configuration: Configuration, on_broker: OnBroker) -> Response:
    """Alter keys of the broker that Kafka lets change while it runs. 200 with a warning for an unknown key."""
    with collected_warnings() as warnings:
        await on_broker(lambda broker: broker.configure(configuration.configs))
    return done(warnings)


@router.get("/topics/{topic}/configs", openapi_extra=calls("topic_config"))
async def read_topic_configs(topic: str, on_broker: OnBroker) -> TopicConfiguration:
    """The configuration of a topic."""
    configs = await on_broker(lambda broker: broker.topic_config(topic_of(broker.services, topic).name))
    return TopicConfiguration(configs=configs)


@router.post("/topics/{topic}/configs", status_code=204, openapi_extra=calls("configure_topic"))
async def configure_topic(topic: str, configuration: Configuration, on_broker: OnBroker) -> None:
    """Alter keys of a topic."""
    await on_broker(lambda broker: broker.configure_topic(topic_of(broker.services, topic).name, configuration.configs))


@router.post("/quotas", status_code=204, openapi_extra=calls("set_quota"))
async def set_quota(quota: Quota, on_broker: OnBroker) -> None:
    """Limit what clients may do, or do so no longer."""
    await on_broker(lambda broker: broker.set_quota(quota.entity, quota.limits))


@router.get("/acls", openapi_extra=calls("acls"))
async def list_acls(on_broker: OnBroker) -> RuleList:
    """All access control rules."""
    return _shown(await on_broker(lambda broker: broker.acls()))


@router.post("/acls", status_code=201, openapi_extra=calls("allow", "deny"))
async def create_acls(new: NewRule, on_broker: OnBroker) -> RuleList:
    """Permit or deny something; the answer has a rule for each operation."""
    about = new.model_dump(include={"topic", "group", "transactional_id", "cluster", "prefixed", "host"})
    resource = Resource(**{name: each for name, each in about.items() if each is not None})  # type: ignore[typeddict-item]  # the names are those of the model

    async def work(broker: AsyncOperations) -> list[AclBinding]:
        make = broker.allow if new.permission == "allow" else broker.deny
        return await make(new.principal, *new.operations, **resource)

    return _shown(await on_broker(work))


@router.delete("/acls", status_code=204, openapi_extra=calls("remove_acls"))
async def delete_acls(on_broker: OnBroker) -> None:
    """Forget all rules."""

    async def work(broker: AsyncOperations) -> None:
        await broker.remove_acls(await broker.acls())

    await on_broker(work)


@router.get("/telemetry", openapi_extra=calls("telemetry"))
async def read_telemetry(on_broker: OnBroker) -> Telemetry:
    """The last metrics that clients have sent of themselves (KIP-714)."""
    return Telemetry.model_validate({"pushes": await on_broker(lambda broker: broker.telemetry())})


def _shown(acls: list[AclBinding]) -> RuleList:
    return RuleList.model_validate({"acls": acls})
