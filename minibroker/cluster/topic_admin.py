"""Rules for new topics and partitions, by request or by auto-creation (`ReplicationControlManager.createTopics`)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.core import Core
from minibroker.cluster.replicas import Replicas
from minibroker.cluster.topics import Topic, topic_name_error
from minibroker.config import BrokerConfig, ConfigError, TopicConfig
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import METADATA_TOPIC

DEFAULT: Final = -1
"""The number of partitions or replicas by which a client leaves the choice to the broker (KIP-464)."""

MAX_PARTITIONS: Final = 10_000
"""More partitions cannot be asked for in one request (`ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`)."""
MAX_RECORDS: Final = 10_000
"""Nor may a request change more than would make so many records (`QuorumController.MAX_RECORDS_PER_USER_OP`)."""
TOO_LARGE: Final = "Unable to perform excessively large batch operation."
"""The controller's words about a request that would make more."""


class TopicError(ValueError):
    """A refusal, with the error code that the client gets."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class TopicPlan(NamedTuple):
    """A topic that passed all checks and can be created; `replicas` are those of each partition if a client says so."""

    name: str
    partitions: int
    config: TopicConfig
    replication_factor: int = 1
    replicas: tuple[Replicas, ...] | None = None


def refuse_duplicate(name: str, named: Mapping[str, int]) -> None:
    """Raise TopicError when a request names a topic more than once: `named` counts."""
    if named[name] > 1:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def refuse_empty_replicas(replicas: Iterable[Sequence[int]]) -> None:
    """Raise TopicError when a partition that is placed by hand has no broker."""
    if not all(replicas):
        raise TopicError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
        )


def refuse_too_many(partitions: int) -> None:
    """Raise TopicError when one request asks for more new partitions than Kafka makes at once."""
    if partitions > MAX_PARTITIONS:
        raise TopicError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def refuse_too_large(records: int) -> None:
    """Raise TopicError when a request would make more records in Kafka's metadata log than Kafka writes at once."""
    if records > MAX_RECORDS:
        raise TopicError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)


def disk_refusal(error: OSError) -> TopicError:
    """The refusal that a client gets when the disk has refused."""
    return TopicError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error.filename}: {error.strerror}")


def plan_topic(
    core: Core,
    name: str,
    partitions: int = DEFAULT,
    replication_factor: int = DEFAULT,
    configs: Mapping[str, str | None] | None = None,
    replicas: tuple[Replicas, ...] | None = None,
) -> TopicPlan:
    """Check what a client wants.

    Raises TopicError with Kafka's code. A broker that is alone takes any replication factor, and makes it 1, unless
    `minibroker.replication.factor.strict` is set.
    """
    check_new_name(core, name)
    if replication_factor != DEFAULT and replication_factor <= 0:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions == DEFAULT:
        partitions = core.config.integer("num.partitions")
    if partitions <= 0:
        raise TopicError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    refuse_too_many(partitions)
    factor = len(replicas[0]) if replicas else _replication_factor(core.cluster, replication_factor, core.config)
    return TopicPlan(name, partitions, _topic_config(core, configs or {}), factor, replicas)


def check_new_name(core: Core, name: str) -> None:
    """Raise TopicError unless a topic can be made under this name; Kafka looks at that first."""
    reason = topic_name_error(name)
    if reason is not None:
        raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name == METADATA_TOPIC:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if core.topics.get(name) is not None:
        raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = core.topics.colliding(name)
    if other is not None:
        raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def is_strict_about_replicas(config: BrokerConfig) -> bool:
    """Whether more replicas than there are brokers are refused everywhere, as in Kafka."""
    return config.boolean("minibroker.replication.factor.strict")


def _replication_factor(cluster: Cluster, requested: int, config: BrokerConfig) -> int:
    """The number of replicas that a partition gets.

    INVALID_REPLICATION_FACTOR when a client wants more than there are brokers. The default goes as far as there are,
    and so does any factor on a broker that is alone, unless the configuration is strict.
    """
    nodes = len(cluster.nodes)
    is_strict = is_strict_about_replicas(config)
    default = config.integer("default.replication.factor")
    if requested == DEFAULT and is_strict:
        requested = default
    if requested == DEFAULT or (nodes == 1 and not is_strict):
        return min(default, nodes)
    if requested > nodes:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {requested} time(s): The target replication factor of {requested} "
            f"cannot be reached because only {nodes} broker(s) are registered.",
        )
    return requested


def check_replicas(core: Core, replicas: Sequence[Sequence[int]], first_partition: int = 0) -> tuple[Replicas, ...]:
    """Replicas as a client has placed them by hand (`ReplicationControlManager.validateManualPartitionAssignment`).

    INVALID_REPLICA_ASSIGNMENT refuses a partition without a broker. A single broker takes all
    other replicas. Several brokers, or a strict configuration, also refuse a broker that is named twice or does not
    exist, and partitions with different numbers of replicas.
    """
    refuse_empty_replicas(replicas)
    cluster = core.cluster
    if cluster.is_single and not is_strict_about_replicas(core.config):
        return tuple((cluster.first.id,) for _ in replicas)
    for index, each in enumerate(replicas, first_partition):
        unknown = next((node_id for node_id in each if node_id not in cluster.nodes), None)
        if unknown is not None:
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {unknown}, but no such broker is registered.",
            )
        twice = next((node_id for node_id in each if each.count(node_id) > 1), None)
        if twice is not None:
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes the broker {twice} more than once.",
            )
        if len(each) != len(replicas[0]):
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes a partition with {len(each)} replica(s), but this is not "
                f"consistent with previous partitions, which have {len(replicas[0])} replica(s).",
            )
        if not any(cluster.nodes[node_id].is_up for node_id in each):
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown.",
            )
    return tuple(map(tuple, replicas))


def create_topics(core: Core, plans: list[TopicPlan]) -> list[Topic]:
    """Create planned topics together; raises TopicError when the disk refuses. See `Topics.create`."""
    cluster = core.cluster
    placements = [plan.replicas or cluster.assign_replicas(plan.partitions, plan.replication_factor) for plan in plans]
    try:
        return core.topics.create([(plan.name, plan.partitions, plan.config) for plan in plans], placements)
    except OSError as error:
        raise disk_refusal(error) from error


def _topic_config(core: Core, configs: Mapping[str, str | None]) -> TopicConfig:
    try:
        return TopicConfig(core.config, configs)
    except ConfigError as error:
        raise TopicError(ErrorCode.INVALID_CONFIG, str(error)) from None


class TopicSpec(NamedTuple):
    """A topic as people write it on a command line: NAME[:PARTITIONS[:key=value,...]]."""

    name: str
    partitions: int
    configs: dict[str, str | None]

    @classmethod
    def parse(cls, text: str) -> "TopicSpec":
        """Read "orders", "orders:4" or "orders:4:cleanup.policy=compact,segment.bytes=1048576".

        ValueError that says what is wrong.
        """
        name, _, rest = text.partition(":")
        count, _, settings = rest.partition(":")
        if count and not (count.isascii() and count.isdigit()):
            advice = "; name each topic apart" if " " in text else ""
            raise ValueError(f"{text!r}: {count!r} is not a number of partitions{advice}")
        configs: dict[str, str | None] = {}
        for setting in filter(None, settings.split(",")):
            key, equals, value = setting.partition("=")
            if not equals:
                # A list value holds commas itself: cleanup.policy=compact,delete
                if not configs:
                    raise ValueError(f"{text!r}: {setting!r} is not key=value")
                last = next(reversed(configs))
                configs[last] = f"{configs[last]},{setting}"
                continue
            configs[key] = value
        return cls(name, int(count) if count else DEFAULT, configs)
