"""The table of rights is complete, documented and correct."""

from pathlib import Path

import pytest

from minibroker.cluster.routing.routes import ROUTES, Route
from minibroker.server.requests.endpoints import endpoint, requirements_table
from minibroker.server.requests.targets import target_fields

ROOT = Path(__file__).parents[4]
FREE = {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions", "PushTelemetry"}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.message)
def test_every_api_says_what_it_needs(route: Route) -> None:
    row = endpoint(route.key).needs
    assert (row.text == "nothing") is (route.message in FREE)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.message)
def test_what_is_refused_by_name_is_what_the_request_is_known_to_name(route: Route) -> None:
    each = endpoint(route.key).needs.each
    if each is not None:
        kinds = {"ANY": {"group", "transactional_id"}}.get(each.resource_type.name, {each.resource_type.name.lower()})
        assert kinds <= target_fields(endpoint(route.key))


def test_the_documentation_has_the_table() -> None:
    assert requirements_table() in (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
