"""Requests and responses of other vendors' admin APIs, without their transport.

- Redpanda's API: health, brokers and users, as used by Testcontainers' modules, `rpk` and health checks.
- cp-server's API for health checks: the id of its metadata service, and the clusters of its REST API v3.
- No API, for the ports of services that do not exist here, such as Redpanda's schema registry.
"""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import unquote

from minibroker.config.documents import parse_json
from minibroker_control.vendors import cluster_config
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.security.sasl import scram

if TYPE_CHECKING:
    from minibroker.cluster.node import Node
    from minibroker.server.services import Services


Answer = tuple[int, object]
"""A status, and the content of the JSON body."""

OK: Final = HTTPStatus.OK
READERS: Final = frozenset({"GET", "HEAD"})


class AdminRequest(NamedTuple):
    """A request: its method, path without query, and body."""

    method: str
    path: str
    body: bytes = b""


def refusal(status: HTTPStatus, message: str) -> Answer:
    """Return an error in Redpanda's format."""
    return status, {"message": message, "code": int(status)}


def not_found(question: AdminRequest) -> Answer:
    """Return 404 for a route that does not exist here."""
    return refusal(HTTPStatus.NOT_FOUND, f"{question.method} {question.path} is not served by minibroker")


def answer_as_confluent(services: "Services", question: AdminRequest) -> Answer:
    """Answer a request to cp-server. No login is required."""
    if question.method not in READERS:
        return not_found(question)
    cluster = services.core.cluster
    path = question.path.rstrip("/").removeprefix("/kafka")
    if path == "/v1/metadata/id":
        return OK, {"id": cluster.cluster_id, "scope": {"path": [], "clusters": {"kafka-cluster": cluster.cluster_id}}}
    described = _describe_cluster(services)
    if path == "/v3/clusters":
        return OK, {"kind": "KafkaClusterList", "metadata": {"self": path, "next": None}, "data": [described]}
    if path == f"/v3/clusters/{cluster.cluster_id}":
        return OK, described
    return not_found(question)


def _describe_cluster(services: "Services") -> dict[str, object]:
    cluster = services.core.cluster
    path = f"/v3/clusters/{cluster.cluster_id}"
    controller = None if cluster.controller is None else {"related": f"{path}/brokers/{cluster.controller.id}"}
    related = {name: {"related": f"{path}/{name}"} for name in ("brokers", "topics")}
    return {
        "kind": "KafkaCluster",
        "metadata": {"self": path, "resource_name": f"crn:///kafka={cluster.cluster_id}"},
        "cluster_id": cluster.cluster_id,
        "controller": controller,
        **related,
    }


def answer_as_absent(_services: "Services", _question: AdminRequest) -> Answer:
    """Answer any request with status 404 and the reason."""
    return refusal(HTTPStatus.NOT_FOUND, "minibroker has no HTTP proxy; this port is only open")


_CONFIG: Final = "/v1/cluster_config"
_USERS: Final = "/v1/security/users"
_DEFAULT_MECHANISM: Final = "SCRAM-SHA-256"
_MECHANISMS: Final = (_DEFAULT_MECHANISM, "SCRAM-SHA-512")
_BROKER: Final = re.compile(r"/v1/brokers/(\d{1,9})", re.ASCII)


def answer_as_redpanda(services: "Services", question: AdminRequest) -> Answer:
    """Answer a request to Redpanda. No login is required, as in Redpanda by default."""
    path = question.path.rstrip("/")
    if path == _USERS or path.startswith(f"{_USERS}/"):
        return _answer_users(services, question, unquote(path.removeprefix(_USERS).removeprefix("/")))
    if path == _CONFIG and question.method == "PUT":
        return cluster_config.change_properties(services, question.body)
    broker_path = _BROKER.fullmatch(path)
    node = services.core.cluster.nodes.get(int(broker_path[1])) if broker_path else None
    if question.method in READERS and node is not None:
        return OK, _describe_broker(node)
    read = _READS.get(path) if question.method in READERS else None
    return not_found(question) if read is None else read(services)


def _answer_ready(services: "Services") -> Answer:
    is_ready = any(node.is_up for node in services.core.cluster.nodes.values())
    return (OK, {"status": "ready"}) if is_ready else (HTTPStatus.SERVICE_UNAVAILABLE, {"status": "booting"})


def _describe_broker(node: "Node") -> dict[str, object]:
    return {
        "node_id": node.id,
        "num_cores": 1,
        "membership_status": "active",
        "is_alive": node.is_up,
        "maintenance_status": {"draining": False},
    }


def _answer_health(services: "Services") -> Answer:
    cluster = services.core.cluster
    down = [node.id for node in cluster.nodes.values() if not node.is_up]
    leaderless = [
        f"kafka/{topic.name}/{partition.index}"
        for topic in services.core.topics
        for partition in topic.partitions
        if partition.leader is None
    ]
    reasons = ["nodes_down"] * bool(down) + ["leaderless_partitions"] * bool(leaderless)
    return OK, {
        "is_healthy": not reasons,
        "unhealthy_reasons": reasons,
        "controller_id": -1 if cluster.controller is None else cluster.controller.id,
        "all_nodes": list(cluster.nodes),
        "nodes_down": down,
        "leaderless_partitions": leaderless,
        "leaderless_count": len(leaderless),
        "under_replicated_partitions": [],
        "under_replicated_count": 0,
    }


def _answer_users(services: "Services", question: AdminRequest, name: str) -> Answer:
    stored = services.security.scram
    if question.method in READERS and not name:
        return OK, stored.users()
    if question.method == "POST" and not name:
        return _store_user(services, question, None)
    if name and question.method in {"PUT", "DELETE"}:
        if name not in stored.users():
            return refusal(HTTPStatus.NOT_FOUND, f"there is no user {name!r}")
        if question.method == "PUT":
            return _store_user(services, question, name)
        return _alter_users(services, dict.fromkeys((mechanism, name) for mechanism in stored.of_user(name)))
    return not_found(question)


def _store_user(services: "Services", question: AdminRequest, name: str | None) -> Answer:
    """Add a user, or change the password of an existing user."""
    try:
        content: Any = parse_json(question.body, "the body")
    except ValueError as error:
        return refusal(HTTPStatus.BAD_REQUEST, str(error))
    fields = cast("dict[str, object]", content) if isinstance(content, dict) else {}
    user, secret = name or fields.get("username"), fields.get("password")
    mechanism = fields.get("algorithm", _DEFAULT_MECHANISM)
    if not isinstance(user, str) or not user or not isinstance(secret, str) or not secret:
        return refusal(HTTPStatus.BAD_REQUEST, "a user needs the texts username and password")
    for field, text in (("username", user), ("password", secret)):
        try:
            text.encode()
        except UnicodeEncodeError:
            return refusal(HTTPStatus.BAD_REQUEST, f"{field}: {text!r} is not valid Unicode")
    if mechanism not in _MECHANISMS:
        return refusal(HTTPStatus.BAD_REQUEST, f"algorithm: {mechanism!r} is not one of {', '.join(_MECHANISMS)}")
    stored = services.security.scram
    if name is None and user in stored.users():
        return refusal(HTTPStatus.BAD_REQUEST, f"the user {user!r} exists")
    return _alter_users(services, {(mechanism, user): scram.derive_credential(mechanism, secret)})


def _alter_users(services: "Services", changes: dict[tuple[str, str], Any]) -> Answer:
    try:
        services.security.scram.alter(changes)
    except OSError as error:
        return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
    if not services.core.durability.sync():
        return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the change is not on disk")
    return OK, {}


_READS: Final[dict[str, Callable[["Services"], Answer]]] = {
    "/v1/status/ready": _answer_ready,
    "/v1/brokers": lambda services: (OK, [_describe_broker(node) for node in services.core.cluster.nodes.values()]),
    "/v1/cluster/health_overview": _answer_health,
    _CONFIG: cluster_config.read_properties,
    f"{_CONFIG}/status": cluster_config.read_status,
    "/v1/cluster/uuid": lambda services: (OK, {"cluster_uuid": services.core.cluster.cluster_id}),
}
