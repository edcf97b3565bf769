"""The targets that handlers declare for their requests."""

from typing import Any

import pytest

from minibroker.cluster.routing.routes import ROUTES, Route
from minibroker.server.requests.declarations import Names, topics_at
from minibroker.server.requests.endpoints import endpoint
from minibroker_protocol.schema import fields_of


def kind_at(cls: type[Any], path: str) -> Any:
    """Return the type at the end of a path of fields."""
    for name in filter(None, path.split(".")):
        cls = {field.name: field.kind for field in fields_of(cls)}[name]  # type: ignore[assignment] # a WireType ends it
    return cls


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.message)
def test_what_a_handler_says_that_its_requests_name_is_declared_in_the_message(route: Route) -> None:
    served = endpoint(route.key)
    names = served.names
    assert isinstance(names, Names)
    for topic in names.topics:
        path = f"{topic.within}.{topic.topics}"
        assert kind_at(served.request, f"{path}.{topic.name}").name in {"STRING", "UUID"}
        if topic.partitions:
            assert kind_at(served.request, f"{path}.{topic.partitions}.{topic.number}").name == "INT32"
    if names.keys is not None:
        assert kind_at(served.request, names.keys.field).name == "STRING"
        assert kind_at(served.request, names.keys.single) is not None
    if names.resources:
        assert kind_at(served.request, f"{names.resources}.resource_name").name == "STRING"


def test_a_path_says_where_topics_and_partitions_are() -> None:
    (plain,) = topics_at("topics.name", "partitions.partition_index").topics
    assert plain == ("topics", "name", "partitions", "partition_index", "")
    (nested,) = topics_at("groups.topics.name", "partition_indexes").topics
    assert nested == ("topics", "name", "partition_indexes", "", "groups")
    (names,) = topics_at("topic_names").topics
    assert names == ("topic_names", "", "", "", "")
