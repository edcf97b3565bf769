"""Handlers for client quotas (KIP-546)."""

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.topic_admin import MAX_RECORDS, TOO_LARGE
from minibroker.security.authorization.acls import Operation
from minibroker.server.quotas import ENTITY_TYPES, IP, Entity, QuotaError, Values, check_value, keys_of
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    AlterEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


@handles(
    ApiKey.DESCRIBE_CLIENT_QUOTAS, needs=on_cluster(Operation.DESCRIBE_CONFIGS), refusal=Refusal({"entries": None})
)
def describe_client_quotas(request: DescribeClientQuotasRequest, call: Call) -> DescribeClientQuotasResponse:
    """DescribeClientQuotas: return the quotas of users, client ids and IP addresses that match a filter (KIP-546).

    Versions 0-1 are served.

    Error codes:

    - UNSUPPORTED_VERSION: an entity type does not exist in Kafka.
    - INVALID_REQUEST: an entity type is repeated, a match type is unknown or does not fit, or IP addresses are
      combined with users or client ids.
    """
    _check_filter(request.components)
    entries = [
        _build_entry(entity, values)
        for entity, values in call.services.quota_table.items()
        if _matches(entity, request.components, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message="", entries=entries)


def _check_filter(components: Sequence[ComponentData]) -> None:
    """Check the components of a filter.

    Raises:
        RefusedRequestError: The filter is invalid.
    """
    kinds: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise RefusedRequestError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in kinds:
            message = f"Entity type {kind} cannot appear more than once in the filter."
            raise RefusedRequestError(ErrorCode.INVALID_REQUEST, message)
        if kind not in ENTITY_TYPES:
            raise RefusedRequestError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check_match(component)
        kinds.add(kind)
    if IP in kinds and len(kinds) > 1:
        message = "Invalid entity filter component combination. IP filter component should not be used with "
        raise RefusedRequestError(ErrorCode.INVALID_REQUEST, message + "user or clientId filter component.")


def _check_match(component: ComponentData) -> None:
    match_type, match = component.match_type, component.match
    if match_type == _EXACT and match is None:
        message = "Request specified MATCH_TYPE_EXACT, but set match string to null."
    elif match_type == _DEFAULT and match is not None:
        message = "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
    elif match_type == _SPECIFIED and match is not None:
        message = "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
    elif match_type not in {_EXACT, _DEFAULT, _SPECIFIED}:
        message = f"Unknown match type {match_type}"
    else:
        return
    raise RefusedRequestError(ErrorCode.INVALID_REQUEST, message)


def _matches(entity: Entity, components: Sequence[ComponentData], *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(components):
        return False
    return all(
        component.entity_type in names
        and (component.match_type == _SPECIFIED or names[component.entity_type] == component.match)
        for component in components
    )


def _build_entry(entity: Entity, values: Values) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str, reverse=True)],
        values=[ValueData(key=key, value=value) for key, value in values.items()],
    )


_MAX_UNKNOWN_HOSTS: Final = 100
_LOOKUP_TIMEOUT_MS: Final = 20_000


@handles(ApiKey.ALTER_CLIENT_QUOTAS, needs=on_cluster(Operation.ALTER_CONFIGS), refusal=Refusal(explained=True))
def alter_client_quotas(request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse | DelayedResponse:
    """AlterClientQuotas: set and remove quotas of users, client ids and IP addresses (KIP-546).

    Versions 0-1 are served. Quotas apply from the next request on, and survive a restart. Each entry has its own
    result. Host names that are not known yet are resolved in the background, at most 100 per request and for at
    most 20 s.

    Error codes:

    - INVALID_REQUEST: the entity or key does not exist, the value is not positive, or the host cannot be resolved.
    - POLICY_VIOLATION: for all entries if the request has more than 10,000 entries or quotas.
    """
    if sum(max(1, len(entry.ops)) for entry in request.entries) > MAX_RECORDS:
        raise RefusedRequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    hosts = dict.fromkeys(
        entry.entity[0].entity_name
        for entry in request.entries
        if len(entry.entity) == 1 and entry.entity[0].entity_type == IP
    )
    names = call.services.host_names
    addresses = {host: names.cached_addresses(host) or frozenset() for host in hosts if host}
    unknown = [host for host, known in addresses.items() if not known]
    if unknown:
        return _HostLookup(request, call, addresses, unknown[:_MAX_UNKNOWN_HOSTS])
    return hold(_alter(request, call, addresses), request, call)


class _HostLookup(DelayedResponse):
    """A request delayed until its host names are resolved. Hosts not resolved in time count as unknown."""

    def __init__(
        self,
        request: AlterClientQuotasRequest,
        call: Call,
        addresses: dict[str, frozenset[str]],
        unknown: Collection[str],
    ) -> None:
        self._request = request
        self._call = call
        self._addresses = addresses
        self._is_canceled = False
        call.services.host_names.resolve_all(unknown, _LOOKUP_TIMEOUT_MS, self._on_resolved)

    def waits_for(self) -> str:
        """Return the reason for the delay."""
        return "the addresses of the hosts that quotas name"

    def _on_resolved(self, resolved: dict[str, frozenset[str]]) -> None:
        self._addresses.update(resolved)
        # The lookup can finish immediately, but a response cannot be delivered before the handler returns.
        self._call.core.call_soon(self._alter)

    def _alter(self) -> None:
        outcome = hold(_alter(self._request, self._call, self._addresses), self._request, self._call)
        if isinstance(outcome, DelayedResponse):
            outcome.deliver = self._deliver_unless_canceled
        else:
            self._deliver_unless_canceled(outcome)

    def _deliver_unless_canceled(self, response: AlterClientQuotasResponse) -> None:
        if not self._is_canceled:
            self.deliver(response)

    def cancel(self) -> None:
        """Drop only the response. The quotas are changed even if the client has disconnected."""
        self._is_canceled = True


def _alter(
    request: AlterClientQuotasRequest, call: Call, addresses: Mapping[str, frozenset[str]]
) -> AlterClientQuotasResponse:
    changes: dict[Entity, Mapping[str, float | None]] = {}
    results: list[AlteredEntryData] = []
    for entry in request.entries:
        entity = [(part.entity_type, part.entity_name) for part in entry.entity]
        try:
            ops = _check_operations(entry, entity, changes, addresses)
        except QuotaError as error:
            results.append(_build_result(entry, ErrorCode.INVALID_REQUEST, str(error)))
        else:
            changes[frozenset(entity)] = ops
            results.append(_build_result(entry, ErrorCode.NONE))
    if not request.validate_only and changes:
        try:
            call.services.quota_table.alter(changes)
        except OSError as error:
            failure = f"{error.filename}: {error.strerror}"
            results = [_build_result(entry, ErrorCode.KAFKA_STORAGE_ERROR, failure) for entry in request.entries]
    return AlterClientQuotasResponse(entries=results)


def _check_operations(
    entry: AlterEntryData,
    entity: list[tuple[str, str | None]],
    others: Container[Entity],
    addresses: Mapping[str, frozenset[str]],
) -> dict[str, float | None]:
    """Return the new limits by key, with None for each limit to remove.

    Raises:
        QuotaError: The entity, a key or a value is invalid or repeated.
    """
    keys = keys_of(entity, addresses)
    if frozenset(entity) in others:
        raise QuotaError(f"Ignoring duplicate entity {dict(entity)}")
    ops: dict[str, float | None] = {}
    for op in entry.ops:
        if op.key in ops:
            raise QuotaError(f"Duplicate quota key {op.key} not updating quota for this entity {dict(entity)}")
        if not op.remove:
            check_value(keys, op.key, op.value)
        ops[op.key] = None if op.remove else op.value
    return ops


def _build_result(entry: AlterEntryData, code: ErrorCode, message: str | None = None) -> AlteredEntryData:
    return AlteredEntryData(error_code=code, error_message=message, entity=entry.entity)
