"""Quota entities, their limits and their storage.

An entity is a user, a client id, both, or an address. Each part is a name, or None for the default. The section
"quotas" of the cluster metadata lists them:

    [{"entity": {"user": "alice", "client-id": null}, "values": {"producer_byte_rate": 1024.0}}]
"""

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from minibroker.cluster.cluster_metadata import ClusterMetadata

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"
_INTEGRAL: Final = {
    PRODUCE: ("a LONG", float((1 << 63) - 1)),  # 2^63 as a double, which Kafka treats as unlimited.
    FETCH: ("a LONG", float((1 << 63) - 1)),
    CONNECTION: ("an INT", float((1 << 31) - 1)),
}
"""The keys with integral values, with their types and limits in Kafka (`QuotaConfig`)."""
_OF_CLIENTS: Final = frozenset({PRODUCE, FETCH, REQUEST, MUTATION})
_OF_ADDRESSES: Final = frozenset({CONNECTION})
_EPSILON: Final = 1e-6
_SECTION: Final = "quotas"

Entity = frozenset[tuple[str, str | None]]
"""Pairs of entity type and name. The name is None for the default."""

Values = Mapping[str, float]


class QuotaError(ValueError):
    """An error for an entity that cannot have quotas, or for an invalid value. Clients get INVALID_REQUEST."""


def keys_of(
    entity: Iterable[tuple[str, str | None]], addresses: Mapping[str, frozenset[str]] = MappingProxyType({})
) -> frozenset[str]:
    """Return the quota keys that apply to an entity.

    Args:
        entity: Pairs of entity type and name.
        addresses: The addresses of hosts, by host name.

    Raises:
        QuotaError: The entity is invalid (`ClientQuotaControlManager`).
    """
    names: dict[str, str | None] = {}
    for kind, name in entity:
        if kind in names:
            raise QuotaError(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in ENTITY_TYPES:
            raise QuotaError(f"Unhandled client quota entity type: {kind}")
        if not name and name is not None:
            raise QuotaError(f"Empty {kind} not supported")
        names[kind] = name
    if names.keys() == {IP}:
        host = names[IP]
        if host is not None and not addresses.get(host):
            raise QuotaError(f"{host} is not a valid IP or resolvable host.")
        return _OF_ADDRESSES
    if IP in names:
        # Kafka's message lacks the space, too.
        raise QuotaError("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    if not names:
        raise QuotaError("Invalid empty client quota entity")
    return _OF_CLIENTS


def check_value(keys: frozenset[str], key: str, value: float) -> None:
    """Check that `value` is a valid limit for `key`.

    Raises:
        QuotaError: The key is not one of `keys`, or the value is invalid.
    """
    if key not in keys:
        raise QuotaError(f"Invalid configuration key {key}")
    if not math.isfinite(value):
        raise QuotaError(f"Quota {key} must be a finite number")
    if value <= 0:
        raise QuotaError(f"Quota {key} must be greater than 0")
    if key in _INTEGRAL:
        name, maximum = _INTEGRAL[key]
        if value > maximum:
            raise QuotaError(f"Proposed value for {key} is too large for {name}.")
        if value % 1 > _EPSILON:
            raise QuotaError(f"{key} cannot be a fractional value.")


class QuotaTable:
    """All quotas, by entity.

    Args:
        metadata: The cluster metadata.
        changed: Called after each change from any source.

    Attributes:
        hosts: The limits of hosts, by address or host name.
    """

    def __init__(self, metadata: ClusterMetadata, changed: Callable[[], None]) -> None:
        self._metadata = metadata
        self._changed = changed
        self._load_rows(self._read())
        metadata.subscribe(_SECTION, self._reload)

    def __len__(self) -> int:
        return len(self._by_entity)

    def items(self) -> Iterable[tuple[Entity, Values]]:
        """Return all entities with their limits."""
        return self._by_entity.items()

    def limit(self, key: str, user: str | None = "", client_id: str | None = "", ip: str | None = "") -> float | None:
        """Return a limit of exactly this entity. A part is "" if the entity lacks it, and None for the default."""
        parts = ((USER, user), (CLIENT_ID, client_id), (IP, ip))
        values = self._by_entity.get(frozenset((kind, name) for kind, name in parts if name is None or name))
        return None if values is None else values.get(key)

    def alter(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> None:
        """Set or remove several limits together. A limit of None is removed.

        Raises:
            OSError: The file cannot be written. In this case no limit has changed.
        """
        rows = dict(self._rows)
        for entity, ops in changes.items():
            values = {**self._by_entity.get(entity, {}), **ops}
            limits = {key: value for key, value in values.items() if value is not None}
            if limits:
                rows[entity] = {"entity": dict(entity), "values": limits}
            else:
                rows.pop(entity, None)
        self._metadata.write(_SECTION, list(rows.values()) or None)
        self._load_rows(rows)
        self._changed()

    def _reload(self) -> None:
        self._load_rows(self._read())
        self._changed()

    def _load_rows(self, rows: dict[Entity, dict[str, Any]]) -> None:
        self._rows = rows  # The same objects are written again, because their JSON text is cached.
        self._by_entity: dict[Entity, Values] = {entity: row["values"] for entity, row in rows.items()}
        self.hosts: dict[str, Values] = {
            name: values for entity, values in self._by_entity.items() for kind, name in entity if kind == IP and name
        }

    def _read(self) -> dict[Entity, dict[str, Any]]:
        rows: list[dict[str, Any]] = self._metadata.read(_SECTION) or []
        return {frozenset(row["entity"].items()): row for row in rows}
