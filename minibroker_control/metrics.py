"""Metrics, computed on request. Only share groups count events for their metrics while requests are served.

Metrics have the names that the Prometheus JMX exporter gives them with its example configuration for Kafka.
`kafka_consumergroup_lag` has the name used by the exporter for consumer groups. Metrics that only this broker has start
with `minibroker_`. Only logs that are already open are included, because a scrape must not open the others.
"""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from minibroker.cluster.errors import OperationError
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.groups.classic.group import Group, GroupState
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.share_partitions.manager import Histogram
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.groups import group_lag
from minibroker.operations.waiting import run_in_slices
from minibroker.server.inspection.recording import journal_of
from minibroker.server.node_listener import NodeListener
from minibroker.server.services import Services

_Labels = tuple[str, ...]
_GAUGES: Final = {
    "kafka_controller_kafkacontroller_activebrokercount": "Brokers that are up",
    "kafka_controller_kafkacontroller_fencedbrokercount": "Brokers that are down",
    "kafka_controller_kafkacontroller_globaltopiccount": "Topics",
    "kafka_controller_kafkacontroller_globalpartitioncount": "Partitions",
    "kafka_controller_kafkacontroller_offlinepartitionscount": "Partitions without a leader",
    "kafka_coordinator_group_groupmetadatamanager_numgroups": "Consumer groups",
    "kafka_coordinator_group_groupmetadatamanager_numoffsets": "Committed offsets",
    **{
        f"kafka_coordinator_group_groupmetadatamanager_numgroups{state.value.lower()}": f"Groups that are {state.value}"
        for state in GroupState
    },
}
_BY_BROKER: Final = {
    "kafka_controller_kafkacontroller_activecontrollercount": "Whether the broker is the controller",
    "kafka_server_replicamanager_partitioncount": "Partitions with a replica on the broker",
    "kafka_server_replicamanager_leadercount": "Partitions that the broker leads",
    "kafka_server_replicamanager_underreplicatedpartitions": "Partitions led with replicas out of sync",
    "kafka_server_replicamanager_underminisrpartitioncount": "Partitions led with too few in-sync replicas",
    "kafka_server_socket_server_metrics_connection_count": "Open connections, including TLS handshakes in progress",
    "kafka_server_socket_server_metrics_broker_connection_accept_rate": "Recent connections per second",
    "kafka_server_fetchsessioncache_numincrementalfetchsessions": "Fetch sessions",
}
_COUNTED_BY_BROKER: Final = {
    "kafka_server_socket_server_metrics_connection_creation": "Connections accepted since the start",
    "kafka_server_socket_server_metrics_connection_close": "Connections closed since the start",
}
_SHARE_SESSIONS: Final = {
    "kafka_server_sharesessioncache_sharesessionscount": "Share sessions",
    "kafka_server_sharesessioncache_sharepartitionscount": "Partitions in share sessions",
}
_DEAD_LETTERS: Final = {
    "kafka_server_sharegroupmetrics_deadletterqueuerecordcount_count": "Records written to a group's dead-letter queue",
    "kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests": "Attempts to write a batch to the queue",
    "kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests": "Batches that were not written to the queue",
}
_ACKNOWLEDGED: Final = {1: "Accept", 2: "Release", 3: "Reject", 4: "Renew"}
"""The types of acknowledgements under Kafka's names. A gap, 0, has no name and no metric."""
_LOAD_MS: Final = "kafka_server_sharegroupmetrics_partitionloadtimems"
_FETCH_RATIO: Final = "kafka_server_sharegroupmetrics_requesttopicpartitionsfetchratio"
_ACQUIRE_MS: Final = "kafka_server_sharegroupmetrics_topicpartitionsacquiretimems"
_SPREADS: Final = {
    _LOAD_MS: "Milliseconds to load a share-partition",
    _FETCH_RATIO: "Percentage of a ShareFetch's partitions with acquired records",
    _ACQUIRE_MS: "Milliseconds until a ShareFetch acquired records",
}
_QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
_LOGS: Final = {
    "kafka_log_log_size": "Size of a partition's segments in bytes",
    "kafka_log_log_numlogsegments": "Segments of a partition",
    "kafka_log_log_logstartoffset": "Log start offset of a partition",
    "kafka_log_log_logendoffset": "Log end offset of a partition",
}
_MESSAGES_IN: Final = "kafka_server_brokertopicmetrics_messagesin"
_BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin"
_LAG: Final = "kafka_consumergroup_lag"
_IN_FLIGHT: Final = "kafka_server_sharepartitionmetrics_inflightmessagecount"
_ACKNOWLEDGEMENTS: Final = "kafka_server_sharegroupmetrics_recordacknowledgements"
_GROUP_TYPES: Final = "kafka_server_group_coordinator_metrics_group_count"
_FAULTS: Final = "minibroker_faults_fired"
_JOURNAL: Final = "minibroker_journal_requests"

_Kind = type[GaugeMetricFamily] | type[CounterMetricFamily] | type[UnknownMetricFamily]
_FAMILIES: Final[dict[str, tuple[_Kind, _Labels, str]]] = {
    **{name: (GaugeMetricFamily, (), text) for name, text in _GAUGES.items()},
    **{name: (GaugeMetricFamily, ("broker",), text) for name, text in (_BY_BROKER | _SHARE_SESSIONS).items()},
    **{name: (CounterMetricFamily, ("broker",), text) for name, text in _COUNTED_BY_BROKER.items()},
    **{name: (GaugeMetricFamily, ("topic", "partition"), text) for name, text in _LOGS.items()},
    _MESSAGES_IN: (CounterMetricFamily, ("topic",), "Appended records"),
    _BYTES_IN: (CounterMetricFamily, ("topic",), "Bytes of appended batches"),
    _LAG: (GaugeMetricFamily, ("consumergroup", "topic", "partition"), "Lag of a group in offsets"),
    _IN_FLIGHT: (GaugeMetricFamily, ("group", "topic", "partition"), "Offsets in flight in a share group"),
    # Like the JMX exporter, type a Count as unknown, not as a counter, unless its name has PerSec.
    **{
        name: (UnknownMetricFamily if name.endswith("_count") else CounterMetricFamily, ("group",), text)
        for name, text in _DEAD_LETTERS.items()
    },
    _ACKNOWLEDGEMENTS: (CounterMetricFamily, ("ackType",), "Records acknowledged by members of share groups"),
    _GROUP_TYPES: (GaugeMetricFamily, ("protocol",), "Groups by type"),
    _FAULTS: (CounterMetricFamily, ("api", "action"), "Requests hit by faults"),
    _JOURNAL: (CounterMetricFamily, (), "Requests since the journal was started"),
}
"""The kind, the labels and the help text of each metric."""


class Scrape(Collector):
    """The metrics at one moment, as a collector of the Prometheus library.

    Attributes:
        numbers: Numbers by metric name and label values.
        spreads: Histograms by metric name and label values.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, dict[_Labels, float]] = defaultdict(lambda: defaultdict(float))
        self.spreads: dict[str, dict[_Labels, Histogram]] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families with their samples."""
        for name, (kind, labels, help_text) in _FAMILIES.items():
            if name != _JOURNAL or name in self.numbers:
                family = kind(name, help_text, labels=labels)
                for label_values, number in self.numbers.get(name, {}).items():
                    family.add_metric(label_values, number)
                yield family
        for name, help_text in _SPREADS.items():
            yield from _iterate_histogram(name, help_text, self.spreads.get(name, {}))


async def collect_metrics(broker: AsyncOperations) -> Scrape:
    """Collect all metrics. Runs on the broker's loop."""
    services = broker.services
    services.core.writes.commit()
    scrape = Scrape()
    _count_brokers(services, scrape)
    _measure_logs(services, scrape)
    _count_shares(services, scrape)
    await run_in_slices(services, _count_groups(services, scrape))
    for fault in await broker.faults.list():
        scrape.numbers[_FAULTS][fault.api or "*", fault.action or "delay"] += fault.fired
    journal = journal_of(services)
    if journal is not None:
        scrape.numbers[_JOURNAL][()] = journal.count
    return scrape


def _partitions(services: Services) -> list[Partition]:
    return [partition for topic in services.core.topics for partition in topic.partitions]


def _count_brokers(services: Services, scrape: Scrape) -> None:
    cluster = services.core.cluster
    led_partitions, under_replicated, under_min_isr, hosted_partitions = (Counter[int]() for _ in range(4))
    offline = 0
    partitions = _partitions(services)
    for partition in partitions:
        offline += partition.leader is None
        hosted_partitions.update(partition.replicas)
        if partition.leader is not None:
            led_partitions[partition.leader.id] += 1
            under_replicated[partition.leader.id] += len(partition.isr) < len(partition.replicas)
            under_min_isr[partition.leader.id] += partition.is_under_min_isr
    for node in cluster.nodes.values():
        quotas = node.listener.quotas if isinstance(node.listener, NodeListener) else None
        numbers = (
            node is cluster.controller,
            hosted_partitions[node.id],
            led_partitions[node.id],
            under_replicated[node.id],
            under_min_isr[node.id],
            0 if quotas is None else len(quotas),
            0 if quotas is None else quotas.rate,
            len(node.fetch_sessions),
            0 if quotas is None else quotas.taken,
            0 if quotas is None else quotas.left,
        )
        for name, number in zip((*_BY_BROKER, *_COUNTED_BY_BROKER), numbers, strict=True):
            scrape.numbers[name][str(node.id),] = number
    up = len(cluster.up)
    scrape.numbers["kafka_controller_kafkacontroller_activebrokercount"][()] = up
    scrape.numbers["kafka_controller_kafkacontroller_fencedbrokercount"][()] = len(cluster.nodes) - up
    scrape.numbers["kafka_controller_kafkacontroller_globaltopiccount"][()] = len(services.core.topics)
    scrape.numbers["kafka_controller_kafkacontroller_globalpartitioncount"][()] = len(partitions)
    scrape.numbers["kafka_controller_kafkacontroller_offlinepartitionscount"][()] = offline


def _measure_logs(services: Services, scrape: Scrape) -> None:
    for partition in _partitions(services):
        log = partition.opened_log
        if log is None:
            continue
        topic = (partition.topic.name,)
        scrape.numbers[_MESSAGES_IN][topic] += max(0, log.log_end_offset - log.end_offset_at_open)
        scrape.numbers[_BYTES_IN][topic] += log.appended_bytes
        numbers = log.size, len(log.segments), log.log_start_offset, log.log_end_offset
        for name, number in zip(_LOGS, numbers, strict=True):
            scrape.numbers[name][partition.topic.name, str(partition.index)] = number


def _count_groups(services: Services, scrape: Scrape) -> Steps[None]:
    coordinator = services.made_groups  # Do not create a coordinator for a scrape.
    groups = [] if coordinator is None else list(coordinator.store.groups())
    states: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    offsets = 0
    for group in groups:
        states[group.state.value] += 1
        kinds[group.kind] += 1
        offsets += sum(map(len, group.offsets.committed.values()))
        with contextlib.suppress(OperationError):  # The lag is unavailable if the group's coordinator has moved.
            for (topic, index), lag in (yield from group_lag(services, group.group_id)).items():
                scrape.numbers[_LAG][group.group_id, topic, str(index)] = lag
        yield
    prefix = "kafka_coordinator_group_groupmetadatamanager_num"
    scrape.numbers[f"{prefix}groups"][()] = len(groups)
    scrape.numbers[f"{prefix}offsets"][()] = offsets
    for state in GroupState:
        scrape.numbers[f"{prefix}groups{state.value.lower()}"][()] = states[state.value]
    for kind in (Group.kind, ConsumerGroup.kind, ShareGroup.kind):
        scrape.numbers[_GROUP_TYPES][kind,] = kinds[kind]


def _count_shares(services: Services, scrape: Scrape) -> None:
    manager = services.made_share_partitions  # Do not create a manager for a scrape.
    for node in services.core.cluster.nodes.values():
        sessions = None if manager is None else manager.sessions(node)
        numbers = (0, 0) if sessions is None else (len(sessions), sessions.partitions)
        for name, number in zip(_SHARE_SESSIONS, numbers, strict=True):
            scrape.numbers[name][str(node.id),] = number
    if manager is None:
        return
    for key, share_partition in manager.all.items():
        topic = services.core.topics.with_id(key.topic_id)
        if topic is not None:
            scrape.numbers[_IN_FLIGHT][key.group_id, topic.name, str(key.partition)] = share_partition.in_flight
    metrics = manager.metrics
    for kind, name in _ACKNOWLEDGED.items():
        scrape.numbers[_ACKNOWLEDGEMENTS][name,] = metrics.acknowledged[kind]
    scrape.spreads[_LOAD_MS] = {(): metrics.load_ms}
    scrape.spreads[_FETCH_RATIO] = {(group_id,): reads.ratio for group_id, reads in metrics.fetches.items()}
    scrape.spreads[_ACQUIRE_MS] = {(group_id,): reads.acquire_ms for group_id, reads in metrics.fetches.items()}
    for group_id, letters in manager.dead_letters.items():
        for name, number in zip(_DEAD_LETTERS, (letters.records, letters.batches, letters.failures), strict=True):
            scrape.numbers[name][group_id,] = number


def _iterate_histogram(name: str, help_text: str, spreads: dict[_Labels, Histogram]) -> Iterator[Metric]:
    """Yield the two families that the exporter makes from one of Kafka's histograms."""
    labels = ["group"][: max(map(len, spreads), default=0)]
    quantiles = GaugeMetricFamily(name, help_text, labels=[*labels, "quantile"])
    count = UnknownMetricFamily(f"{name}_count", f"{help_text} (count)", labels=labels)
    for names, spread in spreads.items():
        count.add_metric(names, spread.count)
        for quantile in _QUANTILES:
            quantiles.add_metric([*names, quantile], spread.quantile(float(quantile)))
    yield quantiles
    yield count


def encode_metrics(scrape: Scrape, accept: str) -> tuple[bytes, str]:
    """Return the metrics in the format accepted by the client, and the content type."""
    registry = CollectorRegistry()
    registry.register(scrape)
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
