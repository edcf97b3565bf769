"""Helpers that describe and alter configurations with requests."""

from typing import Any, Final

from minibroker_protocol.messages import configs as api
from minibroker_protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.broker.harness import Harness

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OK: Final = (0, None)
Outcome = tuple[int, str | None]


def describe_request(kind: int, name: str, *keys: str, **fields: Any) -> DescribeConfigsRequest:
    """Return a request for some keys of a resource, or for all of them."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return DescribeConfigsRequest(resources=[resource], **fields)


def describe(
    harness: Harness, kind: int, name: str, *keys: str, version: int = 4, **fields: Any
) -> DescribeConfigsResult:
    """Return the configuration of a resource."""
    (result,) = harness.ask(describe_request(kind, name, *keys, **fields), version).results
    assert isinstance(result, DescribeConfigsResult)
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def rows(harness: Harness, kind: int, name: str, *keys: str, **fields: Any) -> dict[str, DescribeConfigsResourceResult]:
    """Return the keys of an existing resource, by name."""
    result = describe(harness, kind, name, *keys, **fields)
    assert result.error_code == 0, result.error_message
    return {row.name: row for row in result.configs}


def value(harness: Harness, kind: int, name: str, key: str) -> str | None:
    """Return the value of a key."""
    return rows(harness, kind, name, key)[key].value


def synonyms(harness: Harness, kind: int, name: str, key: str) -> list[tuple[str, str | None, int]]:
    """Return the synonyms of a key."""
    row = rows(harness, kind, name, key, include_synonyms=True)[key]
    return [(synonym.name, synonym.value, synonym.source) for synonym in row.synonyms]


def change_request(
    kind: int, name: str, *changes: tuple[int, str, str | None], validate_only: bool = False, times: int = 1
) -> api.IncrementalAlterConfigsRequest:
    """Return a request to change keys of a resource, which can occur in it several times."""
    configs = [
        api.IncrementallyAlteredConfig(name=key, config_operation=operation, value=value)
        for operation, key, value in changes
    ]
    resource = api.IncrementallyAlteredResource(resource_type=kind, resource_name=name, configs=configs)
    return api.IncrementalAlterConfigsRequest(resources=[resource] * times, validate_only=validate_only)


def change(
    harness: Harness,
    kind: int,
    name: str,
    *changes: tuple[int, str, str | None],
    validate_only: bool = False,
    version: int = 1,
) -> Outcome:
    """Change keys of a resource, and return the error code and message."""
    request = change_request(kind, name, *changes, validate_only=validate_only)
    (result,) = harness.ask(request, version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


def put(harness: Harness, kind: int, name: str, key: str, text: str | None) -> Outcome:
    """Set a key, or delete it for None, and return the error code and message."""
    return change(harness, kind, name, (DELETE if text is None else SET, key, text))


def replace(
    harness: Harness,
    kind: int,
    name: str,
    texts: dict[str, str | None],
    *,
    validate_only: bool = False,
    version: int = 2,
) -> Outcome:
    """Replace the configuration of a resource, and return the error code and message."""
    configs = [api.AlterableConfig(name=key, value=text) for key, text in texts.items()]
    resource = api.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = api.AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = harness.ask(request, version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message
