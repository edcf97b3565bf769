"""Detects faults that can never match a request."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from minibroker.cluster.routing.routes import ROUTES
from minibroker.config.names import misspelling
from minibroker.operations.records import describe_missing_partition, missing_topic_message
from minibroker.server.services import Services
from minibroker_storage.data_directory.names import LEGAL_TOPIC, MAX_TOPIC_NAME

if TYPE_CHECKING:
    from minibroker.server.faults.fault import Fault


def reasons_never_to_match(services: Services, fault: "Fault") -> Iterator[str]:
    """Yield the reasons why no request to this broker in its current state can match a fault."""
    if fault.is_for_registry:
        if services.registry_url is None:
            yield "api: this broker has no schema registry"
        return
    served = services.served
    routes = [route for route in ROUTES if fault.is_for(route.message)]
    ranges = [(route.first, route.last) if served is None else served.get(route.key) for route in routes]
    versions = fault.version_range
    if versions is not None and not any(
        version_range is not None and version_range[0] <= versions.last and versions.first <= version_range[1]
        for version_range in ranges
    ):
        yield f"versions: {fault.versions!r} are versions that no API of this fault is served in"
    nodes = services.core.cluster.nodes
    if fault.node is not None and fault.node not in nodes:
        yield f"node: there is no broker {fault.node}; ids of brokers: {', '.join(map(str, nodes))}"
    name = fault.topic
    if name is None or re.search(r"[*?]", name):
        return
    topic = services.core.topics.get(name)
    if topic is not None and fault.partition is not None and topic.partition(fault.partition) is None:
        yield f"partition: {describe_missing_partition(topic, fault.partition)}"
    is_legal = LEGAL_TOPIC.fullmatch(name) is not None and len(name) <= MAX_TOPIC_NAME
    if topic is None and not is_legal:
        yield f"topic: {name!r} is not a name that a topic can have"
    elif topic is None and misspelling(name, [existing.name for existing in services.core.topics]):
        yield f"topic: {missing_topic_message(services, name)}"
