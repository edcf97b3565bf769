"""What requests about configurations, rights, quotas and client metrics hold; see `models`."""

from typing import Annotated, Literal

from pydantic import Field

from minibroker.control.models import About, Body

Setting = str | int | float | bool
Changes = Annotated[
    dict[str, Setting | None], Field(description="By Kafka's names of keys; null takes back what was altered.")
]


class Configuration(Body):
    """Keys to be altered; they count at once."""

    configs: Changes


class TopicConfiguration(About):
    """What a topic is configured with, also where it is the broker's default."""

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
    """What somebody may do, or may not."""

    permission: Literal["allow", "deny"] = "allow"
    principal: str = Field(description="`User:alice`, or just the name; `User:*` is everybody.")
    operations: list[str] = Field(description="`read`, `write`, `describe`, ..., or `all`.")
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    cluster: bool = False
    prefixed: bool = Field(default=False, description="For all names that begin so.")
    host: str = Field(default="*", description="From this address only.")


class Rule(About):
    """One rule."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class RuleList(About):
    """Rules, in the order in which they were made."""

    acls: list[Rule]


class Metric(About):
    """What a client has measured."""

    name: str
    value: float


class Push(About):
    """The metrics that a client has sent at once."""

    client_instance_id: str
    client_id: str
    client_host: str
    timestamp: int = Field(description="ms since the epoch, when it came.")
    is_last: bool = Field(description="The client has said that it is going.")
    metrics: list[Metric]


class Telemetry(About):
    """The last that clients have sent."""

    pushes: list[Push]
