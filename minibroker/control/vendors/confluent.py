"""HTTP answers of cp-server to health checks: its metadata service's id, and the clusters of its REST API v3."""

from typing import TYPE_CHECKING

from minibroker.control.vendors.answers import OK, READERS, Answer, Question, not_found

if TYPE_CHECKING:
    from minibroker.server.services import Services


def answer(services: "Services", question: Question) -> Answer:
    """The answer to one question; any user may ask."""
    if question.method not in READERS:
        return not_found(question)
    cluster = services.core.cluster
    path = question.path.rstrip("/").removeprefix("/kafka")
    if path == "/v1/metadata/id":
        return OK, {"id": cluster.cluster_id, "scope": {"path": [], "clusters": {"kafka-cluster": cluster.cluster_id}}}
    found = _cluster(services)
    if path == "/v3/clusters":
        return OK, {"kind": "KafkaClusterList", "metadata": {"self": "/v3/clusters", "next": None}, "data": [found]}
    if path == f"/v3/clusters/{cluster.cluster_id}":
        return OK, found
    return not_found(question)


def _cluster(services: "Services") -> dict[str, object]:
    cluster = services.core.cluster
    own = f"/v3/clusters/{cluster.cluster_id}"
    controller = None if cluster.controller is None else {"related": f"{own}/brokers/{cluster.controller.id}"}
    related = {name: {"related": f"{own}/{name}"} for name in ("brokers", "topics")}
    return {
        "kind": "KafkaCluster",
        "metadata": {"self": own, "resource_name": f"crn:///kafka={cluster.cluster_id}"},
        "cluster_id": cluster.cluster_id,
        "controller": controller,
        **related,
    }
