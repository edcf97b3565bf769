"""Endpoints: routes with their message and handler modules, which are imported with the first request of an API."""

import importlib
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.cluster.routing.routes import ROUTES, Route, UnservedRequestError
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages import MODULES, messages_of
from minibroker_protocol.schema import fields_of, schema_of

with lazy:
    from minibroker.server.requests import declarations

if TYPE_CHECKING:
    from minibroker.server.requests.requirements import Requirement

# A module constant, because looking up an enum member on every request is slow.
_API_VERSIONS: Final = ApiKey.API_VERSIONS


class Endpoint(NamedTuple):
    """A route with the messages of the API, its handler and the handler's declarations.

    Attributes:
        route: The route.
        api: The name of the API's messages, such as "ListOffsets".
        request: The class of requests.
        response: The class of responses.
        flexible: The versions with flexible requests, which also have flexible headers (KIP-482).
        with_ids: The versions whose requests identify topics by id.
        handle: The handler.
        needs: The rights that a client needs.
        names: The topics, groups and other objects that requests name.
        refusal: The error responses.
        deadline: The name of a field, or None. A request in which this field is not empty is refused if its timeout
            is not positive.
        plain: The plain shape, or None.
        is_about_groups: Whether requests need the state of the groups that they name. Requests about a group's
            configuration or coordinator do not.
    """

    route: Route
    api: str
    request: type[Any]
    response: type[Any]
    flexible: frozenset[int]
    with_ids: frozenset[int]
    handle: "declarations.Handle"
    needs: "Requirement"
    names: "declarations.Names"
    refusal: "declarations.Refusal"
    deadline: str | None
    plain: "declarations.PlainShape | None"
    is_about_groups: bool

    def has_flexible_response_header(self, version: int) -> bool:
        """Return whether responses have flexible headers.

        ApiVersions keeps response header v0, which clients can read before they know the broker's versions (KIP-511).
        """
        return version in self.flexible and self.route.key is not _API_VERSIONS


@cache
def endpoint(key: int) -> Endpoint:
    """Return the endpoint of an API key.

    Raises:
        UnservedRequestError: The API is not served.
    """
    route = next((route for route in ROUTES if route.key == key), None)
    if route is None:
        raise UnservedRequestError(f"API key {key} is not served")
    api, request, response = messages_of(route.key)
    importlib.import_module(f"minibroker.server.handlers.{MODULES[route.key]}")
    schema = schema_of(request)
    versions = range(schema.versions.first, schema.versions.last + 1)
    flexible = frozenset(version for version in versions if version in schema.flexible)
    with_ids = frozenset(version for version in versions if _has_topic_ids(request, version))
    handler = declarations.HANDLERS[route.key]
    return Endpoint(route, api, request, response, flexible, with_ids, *handler, _needs_groups(request, handler.names))


@cache
def find_endpoint(api: str) -> Endpoint:
    """Return the endpoint of an API by name, such as "ListOffsets".

    Raises:
        StopIteration: The API is not served.
    """
    return endpoint(next(route.key for route in ROUTES if route.message == api))


def _has_topic_ids(cls: type[Any], version: int) -> bool:
    return any(
        version in field.present
        and (field.name == "topic_id" or (isinstance(field.kind, type) and _has_topic_ids(field.kind, version)))
        for field in fields_of(cls)
    )


def _needs_groups(request: type[Any], names: "declarations.Names") -> bool:
    keys = names.keys
    if names.resources or (keys is not None and not keys.kind):
        return False
    return (keys is not None and keys.kind == "group") or any(field.name == "group_id" for field in fields_of(request))


def requirements_table() -> str:
    """Return the requirements of all APIs as a Markdown table."""
    rows = "".join(f"| {route.message} | {endpoint(route.key).needs.text} |\n" for route in ROUTES)
    return "| API | needs |\n| --- | --- |\n" + rows


if __name__ == "__main__":
    sys.stdout.write(requirements_table())
