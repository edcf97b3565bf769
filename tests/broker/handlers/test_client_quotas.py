"""DescribeClientQuotas and AlterClientQuotas."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.broker.harness import Harness, Pending
from tests.broker.quotas.asking import alter_request, set_quota

LIMIT = {"producer_byte_rate": 1000.0}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "entity", [{"user": "u"}, {"user": None}, {"client-id": "c"}, {"client-id": None}, {"user": "u", "client-id": None}]
)
def test_a_limit_is_there_once_it_is_set(version: int, entity: dict[str, str | None], harness: Harness) -> None:
    (result,) = harness.ask(alter_request((entity, LIMIT)), version).entries
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert {part.entity_type: part.entity_name for part in result.entity} == entity
    assert dict(harness.services.quota_table.items()) == {frozenset(entity.items()): LIMIT}


def test_an_address_has_a_rate_of_connections_only(harness: Harness) -> None:
    good, bad = harness.ask(
        alter_request(({"ip": "127.0.0.1"}, {"connection_creation_rate": 5}), ({"ip": None}, LIMIT)), 1
    ).entries
    assert good.error_code == ErrorCode.NONE
    assert (bad.error_code, bad.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Invalid configuration key producer_byte_rate",
    )


@pytest.mark.parametrize(
    ("entity", "values", "reason"),
    [
        ({}, LIMIT, "Invalid empty client quota entity"),
        ({"group": "g"}, LIMIT, "Unhandled client quota entity type: group"),
        ({"user": ""}, LIMIT, "Empty user not supported"),
        (
            {"user": "u", "ip": "127.0.0.1"},
            LIMIT,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ({"ip": "no such host"}, {"connection_creation_rate": 1}, "no such host is not a valid IP or resolvable host."),
        ({"user": "u"}, {"no.such": 1}, "Invalid configuration key no.such"),
        ({"user": "u"}, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        ({"user": "u"}, {"producer_byte_rate": 1e19}, "Proposed value for producer_byte_rate is too large for a LONG."),
        (
            {"ip": None},
            {"connection_creation_rate": 3e9},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        ({"user": "u"}, {"request_percentage": 0}, "Quota request_percentage must be greater than 0"),
        ({"user": "u"}, {"request_percentage": -1}, "Quota request_percentage must be greater than 0"),
        ({"user": "u"}, {"request_percentage": float("nan")}, "Quota request_percentage must be a finite number"),
        ({"user": "u"}, {"producer_byte_rate": float("inf")}, "Quota producer_byte_rate must be a finite number"),
    ],
)
def test_what_there_cannot_be_is_refused(
    entity: dict[str, str | None], values: dict[str, float | None], reason: str, harness: Harness
) -> None:
    answer = harness.send(alter_request((entity, values)), 1)  # delayed by the lookup of a host
    (result,) = (answer.response if isinstance(answer, Pending) else answer).entries
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, reason)
    assert not len(harness.services.quota_table)


def test_a_limit_is_removed_and_one_that_is_not_there_is_no_error(harness: Harness) -> None:
    harness.ask(alter_request(({"user": "u"}, LIMIT)), 1)
    for _ in range(2):
        (result,) = harness.ask(alter_request(({"user": "u"}, {"producer_byte_rate": None})), 1).entries
        assert result.error_code == ErrorCode.NONE
    assert not len(harness.services.quota_table)


def test_the_greatest_long_is_a_limit(harness: Harness) -> None:
    (result,) = harness.ask(alter_request(({"user": "u"}, {"producer_byte_rate": float(2**63)})), 1).entries
    assert result.error_code == ErrorCode.NONE


def test_an_entity_that_is_named_twice_is_refused_the_second_time(harness: Harness) -> None:
    first, second = harness.ask(alter_request(({"user": "u"}, LIMIT), ({"user": "u"}, LIMIT)), 1).entries
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)


def test_validation_alters_nothing(harness: Harness) -> None:
    (result,) = harness.ask(alter_request(({"user": "u"}, LIMIT), validate_only=True), 1).entries
    assert result.error_code == ErrorCode.NONE
    assert not len(harness.services.quota_table)


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
        entry.values[0].value: {part.entity_type: part.entity_name for part in entry.entity}
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
