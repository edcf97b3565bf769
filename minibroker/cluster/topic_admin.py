"""Rules for new topics and partitions, by request or by auto-creation (`ReplicationControlManager.createTopics`)."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.core import Core
from minibroker.cluster.partition import Replicas
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.topics import Topic, topic_name_error
from minibroker.config import BrokerConfig, ConfigError, TopicConfig
from minibroker.config.topic import hint_of_unknown_key
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import METADATA_TOPIC

DEFAULT: Final = -1
"""The number of partitions or replicas that leaves the choice to the broker (KIP-464)."""

MAX_PARTITIONS: Final = 10_000
"""The maximum number of new partitions in one request (`ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`)."""
MAX_RECORDS: Final = 10_000
"""The maximum number of metadata records that one request may create (`QuorumController.MAX_RECORDS_PER_USER_OP`)."""
_logger: Final = logging.getLogger(__name__)
TOO_LARGE: Final = "Unable to perform excessively large batch operation."
"""The controller's error message for a request that exceeds the maximum."""


class TopicError(RefusedRequestError, ValueError):
    """The rejection of a request about topics, with the error code for the client."""


class TopicPlan(NamedTuple):
    """A topic that passed all checks and can be created.

    `replicas` contains the replicas of each partition if the client assigned them. `wanted_factor` is the replication
    factor that the topic has once there are enough nodes.
    """

    name: str
    partitions: int
    config: TopicConfig
    replication_factor: int
    wanted_factor: int
    replicas: tuple[Replicas, ...] | None = None


def refuse_duplicate(name: str, occurrences: Mapping[str, int]) -> None:
    """Check that a request names a topic only once.

    Args:
        name: The topic.
        occurrences: The number of times that the request names each topic.

    Raises:
        TopicError: The topic is named more than once.
    """
    if occurrences[name] > 1:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def assignment_error(message: str) -> TopicError:
    """Return the error for an invalid assignment of replicas."""
    return TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def refuse_empty_replicas(replicas: Iterable[Sequence[int]]) -> None:
    """Check that every manually placed partition has a broker.

    Raises:
        TopicError: A partition has no replicas.
    """
    if not all(replicas):
        raise assignment_error("The manual partition assignment includes an empty replica list.")


def refuse_too_many(partitions: int) -> None:
    """Check that a request does not ask for more new partitions than Kafka creates in one request.

    Raises:
        TopicError: The request asks for too many partitions.
    """
    if partitions > MAX_PARTITIONS:
        raise TopicError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def refuse_too_large(records: int) -> None:
    """Check that a request does not need more metadata records than Kafka writes in one operation.

    Raises:
        TopicError: The request would add too many records.
    """
    if records > MAX_RECORDS:
        raise TopicError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)


def disk_refusal(error: OSError) -> TopicError:
    """Return the error for a client whose request failed because of a disk error."""
    return TopicError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error.filename}: {error.strerror}")


def plan_topic(
    core: Core,
    name: str,
    partitions: int = DEFAULT,
    replication_factor: int = DEFAULT,
    configs: Mapping[str, str | None] | None = None,
    replicas: tuple[Replicas, ...] | None = None,
    *,
    awaits_nodes: bool = False,
) -> TopicPlan:
    """Validate a new topic.

    A single broker accepts any replication factor and replaces it with 1, unless
    `minibroker.replication.factor.strict` is set. If other brokers join it, the topic gets the other replicas.

    Args:
        core: The core.
        name: The name of the topic.
        partitions: The number of partitions.
        replication_factor: The number of replicas of each partition.
        configs: The configuration overrides.
        replicas: The replicas of each partition, if the client assigned them.
        awaits_nodes: Whether a replication factor above the number of nodes is always accepted.

    Raises:
        TopicError: The topic is invalid. The error has Kafka's error code.
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
    wanted = core.config.integer("default.replication.factor") if replication_factor == DEFAULT else replication_factor
    if awaits_nodes:
        replication_factor = min(replication_factor, len(core.cluster.nodes))
    factor = len(replicas[0]) if replicas else _replication_factor(core.cluster, replication_factor, core.config)
    try:
        return TopicPlan(name, partitions, TopicConfig(core.config, configs or {}), factor, wanted, replicas)
    except ConfigError as error:
        raise TopicError(ErrorCode.INVALID_CONFIG, str(error)) from None


def check_new_name(core: Core, name: str) -> None:
    """Check that a topic can be created under this name. Kafka makes this check before all others.

    Raises:
        TopicError: The name is invalid, prohibited or in use.
    """
    reason = topic_name_error(name)
    if reason is not None:
        raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name == METADATA_TOPIC:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if core.topics.get(name) is not None:
        raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = core.topics.find_collision(name)
    if other is not None:
        raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def is_strict_about_replicas(config: BrokerConfig) -> bool:
    """Return whether replication factors above the number of brokers are always rejected, as in Kafka."""
    return config.boolean("minibroker.replication.factor.strict")


def _replication_factor(cluster: Cluster, requested: int, config: BrokerConfig) -> int:
    """Return the number of replicas of each partition.

    The default replication factor is reduced to the number of brokers. A single broker reduces any factor to 1,
    unless the configuration is strict.

    Raises:
        TopicError: INVALID_REPLICATION_FACTOR, because the client requests more replicas than there are brokers.
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
    """Validate and return manually assigned replicas (`ReplicationControlManager.validateManualPartitionAssignment`).

    A single broker replaces any assignment with one replica on itself. Several brokers, or a strict configuration,
    also reject a broker that is named twice or does not exist, and partitions with different numbers of replicas.

    Raises:
        TopicError: INVALID_REPLICA_ASSIGNMENT, because the assignment is invalid or has a partition without a
            broker.
    """
    refuse_empty_replicas(replicas)
    cluster = core.cluster
    if cluster.is_single and not is_strict_about_replicas(core.config):
        return tuple((cluster.first.id,) for _ in replicas)
    for index, node_ids in enumerate(replicas, first_partition):
        unknown = next((node_id for node_id in node_ids if node_id not in cluster.nodes), None)
        if unknown is not None:
            raise assignment_error(
                f"The manual partition assignment includes broker {unknown}, but no such broker is registered."
            )
        duplicate = next((node_id for node_id in node_ids if node_ids.count(node_id) > 1), None)
        if duplicate is not None:
            raise assignment_error(f"The manual partition assignment includes the broker {duplicate} more than once.")
        if len(node_ids) != len(replicas[0]):
            raise assignment_error(
                f"The manual partition assignment includes a partition with {len(node_ids)} replica(s), but this is "
                f"not consistent with previous partitions, which have {len(replicas[0])} replica(s)."
            )
        if not any(cluster.nodes[node_id].is_up for node_id in node_ids):
            raise assignment_error(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
    return tuple(map(tuple, replicas))


def create_topics(core: Core, plans: list[TopicPlan]) -> list[Topic]:
    """Create planned topics together; see `Topics.create`.

    Raises:
        TopicError: The topics file cannot be written.
    """
    cluster = core.cluster
    placements = [plan.replicas or cluster.assign_replicas(plan.partitions, plan.replication_factor) for plan in plans]
    try:
        topics = core.topics.create([(plan.name, plan.partitions, plan.config) for plan in plans], placements)
    except OSError as error:
        raise disk_refusal(error) from error
    for topic, plan in zip(topics, plans, strict=True):
        topic.wanted_factor = plan.wanted_factor
    return topics


_SEPARATELY: Final = (
    "give each topic separately: --topic a --topic b, a line for each in an ini file, topics=['a', 'b'] in Python"
)
_FACTOR: Final = "replication.factor"


class TopicSpec(NamedTuple):
    """A topic as users write it on a command line: NAME[:PARTITIONS[:key=value,...]].

    The key `replication.factor` is not a configuration of topics; it has the name that Connect and Streams give it.
    """

    name: str
    partitions: int
    configs: dict[str, str | None]
    replication_factor: int

    @classmethod
    def parse(cls, text: str) -> "TopicSpec":
        """Parse "orders", "orders:4" or "orders:4:cleanup.policy=compact,segment.bytes=1048576".

        Raises:
            ValueError: The text is malformed. The message gives the reason.
        """
        name, _, rest = text.partition(":")
        if "," in name or " " in name:
            raise ValueError(f"{text!r}: a topic's name has no commas and no blanks; {_SEPARATELY}")
        count, _, settings = rest.partition(":")
        if count and not (count.isascii() and count.isdigit()):
            advice = f"; {_SEPARATELY}" if " " in text else ""
            raise ValueError(f"{text!r}: {count!r} is not a number of partitions{advice}")
        configs: dict[str, str | None] = {}
        for setting in filter(None, settings.split(",")):
            key, equals, value = setting.partition("=")
            if not equals:
                # A setting without `=` continues the value before it, because a list value contains commas, as in
                # cleanup.policy=compact,delete.
                if not configs:
                    raise ValueError(f"{text!r}: {setting!r} is not key=value")
                last = next(reversed(configs))
                configs[last] = f"{configs[last]},{setting}"
                continue
            configs[key] = value
        factor = configs.pop(_FACTOR, None) or str(DEFAULT)
        if not factor.removeprefix("-").isdecimal():
            raise ValueError(f"{text!r}: {_FACTOR}: {factor!r} is not a whole number")
        return cls(name, int(count) if count else DEFAULT, configs, int(factor))


def create_missing_topics(core: Core, specs: Iterable[TopicSpec]) -> None:
    """Create the topics that a command line names, unless they exist.

    A topic gets no more replicas than there are nodes. If other brokers join, it gets the other replicas.

    Raises:
        TopicError: A topic is invalid, or the topics file cannot be written. No topic was created.
    """
    plans: list[TopicPlan] = []
    for name, partitions, configs, factor in specs:
        topic = core.topics.get(name)
        if topic is not None:
            _log_differences(topic, partitions, configs)
            continue
        try:
            plans.append(plan_topic(core, name, partitions, factor, configs, awaits_nodes=True))
        except TopicError as error:
            raise TopicError(error.code, f"topic {name!r}: {error}{hint_of_unknown_key(error, configs)}") from None
    if plans:
        create_topics(core, plans)


def _log_differences(topic: Topic, partitions: int, configs: Mapping[str, str | None]) -> None:
    """Log how an existing topic differs from the one that was requested. The topic itself is not changed."""
    differs = [
        f"{key} is {topic.config.overrides.get(key, 'not set')}, not {value}"
        for key, value in configs.items()
        if topic.config.overrides.get(key) != str(value)
    ]
    count = len(topic.partitions)
    if partitions not in (DEFAULT, count):
        differs.insert(0, f"it has {count} partition{'' if count == 1 else 's'}, not {partitions}")
    if differs:
        _logger.warning("topic %r exists already, and stays as it is: %s", topic.name, "; ".join(differs))
