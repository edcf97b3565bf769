"""A filter finds the limits that it is meant to."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.broker.harness import Harness
from tests.broker.quotas.asking import set_quota

EXACT, DEFAULT, SPECIFIED = range(3)
INVALID = ErrorCode.INVALID_REQUEST
ENTITIES: list[dict[str, str | None]] = [
    {"user": "u"},
    {"user": None},
    {"user": "u", "client-id": "c"},
    {"user": "u", "client-id": None},
    {"client-id": "c"},
    {"client-id": None},
]

Component = tuple[str, int, str | None]


@pytest.fixture
def quotas(harness: Harness) -> Harness:
    for number, entity in enumerate(ENTITIES, 1):
        set_quota(harness, entity, producer_byte_rate=number)
    return harness


def request_of(*components: Component, strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components],
        strict=strict,
    )


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [1, 2, 3, 4, 5, 6]),
        ([], True, []),
        ([("user", EXACT, "u")], False, [1, 3, 4]),
        ([("user", EXACT, "u")], True, [1]),
        ([("user", DEFAULT, None)], False, [2]),
        ([("user", SPECIFIED, None)], False, [1, 2, 3, 4]),
        ([("client-id", SPECIFIED, None)], True, [5, 6]),
        ([("user", EXACT, "u"), ("client-id", SPECIFIED, None)], True, [3, 4]),
        ([("user", EXACT, "u"), ("client-id", DEFAULT, None)], False, [4]),
        ([("user", EXACT, "nobody")], False, []),
        ([("ip", SPECIFIED, None)], False, []),
    ],
)
def test_a_filter_finds_what_it_describes(
    version: int, components: list[Component], *, strict: bool, found: list[int], quotas: Harness
) -> None:
    response = quotas.ask(request_of(*components, strict=strict), version)
    assert response.error_code == ErrorCode.NONE
    values = {
        entry.values[0].value: {each.entity_type: each.entity_name for each in entry.entity}
        for entry in response.entries
    }
    assert values == {number: ENTITIES[number - 1] for number in found}


@pytest.mark.parametrize(
    ("components", "code", "reason"),
    [
        ([("", EXACT, "a")], INVALID, "Invalid empty entity type."),
        ([("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        (
            [("user", EXACT, "a"), ("user", DEFAULT, None)],
            INVALID,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("user", EXACT, None)], INVALID, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", DEFAULT, "a")], INVALID, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        (
            [("user", SPECIFIED, "a")],
            INVALID,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("user", 3, None)], INVALID, "Unknown match type 3"),
        (
            [("user", EXACT, "a"), ("ip", DEFAULT, None)],
            INVALID,
            (
                "Invalid entity filter component combination. IP filter component should not be used with "
                "user or clientId filter component."
            ),
        ),
    ],
)
def test_a_filter_that_means_nothing_is_refused(
    components: list[Component], code: ErrorCode, reason: str, quotas: Harness
) -> None:
    response = quotas.ask(request_of(*components), 1)
    assert (response.error_code, response.error_message, response.entries) == (code, reason, None)
