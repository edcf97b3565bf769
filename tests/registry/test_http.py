"""Content types, bodies, logins and TLS."""

import base64
import ssl
import urllib.request

import pytest

from minibroker import Broker, Security
from tests.patience import PATIENCE_S
from tests.registry.rest import TYPE, Rest
from tests.registry.schemas import V1

DEFAULT = TYPE
ACCEPTED = [
    (None, DEFAULT),
    ("*/*", DEFAULT),
    ("application/json", "application/json"),
    ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
    (f"{DEFAULT}, application/vnd.schemaregistry+json, application/json", DEFAULT),
    ("text/html;q=0.9, application/json;q=0.1", "application/json"),
]


@pytest.mark.parametrize(("accept", "answered"), ACCEPTED)
def test_the_answer_has_the_type_that_the_client_accepts(accept: str | None, answered: str, rest: Rest) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = rest.ask("GET", "/subjects", headers=headers)
    assert (answer.status, answer.headers["content-type"]) == (200, answered)


def test_no_answer_is_cached(rest: Rest) -> None:
    for path in ("/subjects", "/subjects/a/versions"):
        assert rest.ask("GET", path).headers["Cache-Control"] == "no-cache, no-store, must-revalidate"


def test_another_type_is_not_acceptable(rest: Rest) -> None:
    answer = rest.ask("GET", "/subjects", headers={"Accept": "text/html"})
    assert (answer.status, answer.body["error_code"]) == (406, 406)


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (DEFAULT, 200),
        ("application/json; charset=utf-8", 200),
        ("application/octet-stream", 200),
        (None, 200),
        ("text/plain", 415),
    ],
)
def test_a_body_is_taken_by_its_type(content_type: str | None, status: int, rest: Rest) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    assert rest.ask("PUT", "/config", {"compatibility": "FULL"}, headers).status == status


BODIES = [b"", b"{", b"[]", b'"text"', b'{"schema": 5}', b'{"schema":"\\ud800"}', b"[" * 100_000, b"\xff"]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_no_schema_is_a_bad_request(body: bytes, rest: Rest) -> None:
    assert rest.ask("POST", "/subjects/a/versions", body).status in {400, 422}
    assert rest.get("/subjects") == []


def test_half_of_a_surrogate_pair_in_a_setting_is_shown(rest: Rest) -> None:
    answer = rest.ask("PUT", "/config/a", b'{"alias":"\\ud800"}')
    assert (answer.status, answer.body["error_code"]) == (400, 400)
    assert '"alias":"\\ud800"' in answer.body["message"]


def test_numbers_and_texts_stand_for_each_other_in_a_body(rest: Rest) -> None:
    body = {"schema": '"string"', "version": "1", "metadata": {"properties": {"a": 5, "b": True}}}
    rest.post("/subjects/a/versions", body)
    properties = rest.get("/subjects/a/versions/1")["metadata"]["properties"]
    assert properties == {"a": "5", "b": "true", "confluent:version": "1"}
    assert rest.put("/config/a", {"normalize": "true", "alias": 5}) == {"normalize": True, "alias": "5"}
    assert rest.refusal("PUT", "/config/a", {"normalize": "yes"}) == (400, 400)
    assert rest.refusal("POST", "/subjects/a/versions", {"schema": '"int"', "version": 2**31}) == (400, 400)
    assert rest.refusal("POST", "/subjects/a/versions", {"schema": '"int"', "references": [{}]}) == (422, 42201)


@pytest.mark.parametrize("body", [b"", b" ", b"null"])
def test_a_missing_body_cannot_be_processed(body: bytes, rest: Rest) -> None:
    assert rest.refusal("POST", "/subjects/a/versions", body) == (422, 422)
    assert rest.refusal("PUT", "/config", body) == (422, 422)


def test_the_methods_of_an_endpoint_are_told(rest: Rest) -> None:
    answer = rest.ask("OPTIONS", "/subjects")
    assert (answer.status, answer.headers["allow"]) == (200, "HEAD, GET, OPTIONS")


def test_a_body_that_is_too_large_is_refused(rest: Rest) -> None:
    assert rest.refusal("POST", "/subjects/a/versions", b" " * (3 << 20)) == (422, 42209)


def test_a_body_with_too_many_values_is_refused(rest: Rest) -> None:
    assert rest.refusal("POST", "/subjects/a/versions", b"[" + b"[]," * 200_000 + b"[]]") == (422, 42209)


def test_a_schema_that_the_topic_cannot_hold_is_refused(rest: Rest) -> None:
    body = {"schema": V1, "metadata": {"properties": {"x": "y" * 2_000_000}}}
    assert rest.refusal("POST", "/subjects/a/versions", body) == (422, 42209)
    assert rest.get("/subjects") == []


def test_what_clients_ask_besides_schemas_is_answered(rest: Rest, broker: Broker) -> None:
    assert rest.get("/") == {}
    assert rest.post("/", {}) == {}
    clusters = rest.get("/v1/metadata/id")["scope"]["clusters"]
    assert clusters["kafka-cluster"] == broker.services.core.cluster.cluster_id
    assert rest.get("/v1/metadata/version").keys() == {"version", "commitId"}
    assert rest.get("/associations/resources/-/orders?resourceType=topic&associationType=value") == []
    assert rest.get("/subjects/?unknown=1") == []
    for version in ("v6", "v7"):
        assert rest.get(f"/apis/ccompat/{version}/config") == {"compatibilityLevel": "BACKWARD"}
    assert rest.refusal("GET", "/apis/ccompat/v7") == (404, 404)


def test_web_pages_of_other_hosts_are_refused(rest: Rest) -> None:
    assert rest.ask("GET", "/subjects", headers={"Origin": "http://elsewhere.test"}).status == 403
    assert rest.ask("GET", "/subjects", headers={"Host": "elsewhere.test"}).status == 403


def test_a_token_is_a_bearer_token_or_a_user_with_a_password() -> None:
    config = {"minibroker.registry.token": "alice:secret"}
    with Broker(registry=True, config=config) as broker, Rest(broker.registry_url) as rest:
        refused = rest.ask("GET", "/subjects")
        assert (refused.status, refused.body["error_code"]) == (401, 401)
        assert refused.headers["www-authenticate"] == 'Basic realm="schema registry"'
        basic = base64.b64encode(b"alice:secret").decode()
        for given, status in ((f"Basic {basic}", 200), ("Bearer alice:secret", 200), ("Basic eA==", 401)):
            assert rest.ask("GET", "/subjects", headers={"Authorization": given}).status == status


def test_credentials_are_ignored_where_none_are_needed(rest: Rest) -> None:
    assert rest.ask("GET", "/subjects", headers={"Authorization": "Basic eA=="}).status == 200


def test_a_registry_with_tls_has_the_certificate_of_the_broker() -> None:
    security = Security("SSL")
    with Broker(registry="https://127.0.0.1:0", security=security) as broker:
        assert broker.registry_url.startswith("https://")
        context = ssl.create_default_context(cafile=security.librdkafka()["ssl.ca.location"])
        with urllib.request.urlopen(f"{broker.registry_url}/subjects", context=context, timeout=PATIENCE_S) as answer:
            assert answer.read() == b"[]"


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="registry"):
        Broker(registry="nowhere")


def test_a_broker_without_a_registry_has_no_address_of_one() -> None:
    with Broker() as broker, pytest.raises(RuntimeError, match="no schema registry"):
        assert broker.registry_url


def test_a_registry_that_nobody_asks_stops_and_starts_with_its_broker() -> None:
    with Broker(registry=True) as broker:
        assert broker.registry_url
        broker.stop()
        broker.start()
        with Rest(broker.registry_url) as rest:
            assert rest.get("/subjects") == []
