"""Subjects, versions and ids over HTTP."""

import json
from urllib.parse import quote

import pytest

from minibroker import Broker
from tests.registry.rest import Rest
from tests.registry.schemas import ID, INCOMPATIBLE, NOTE, OTHER, V1, V2, record

LENIENT = {"Content-Type": "application/json", "Confluent-Accept-Unknown-Properties": "true"}


def test_the_same_schema_has_the_same_id_in_every_subject_and_is_registered_once(rest: Rest, broker: Broker) -> None:
    first = rest.register("a", V1)
    assert rest.register("b", V1) == first
    second = rest.register("a", V2)
    assert second == first + 1
    written = len(broker.records("_schemas"))
    assert rest.register("a", V1) == first
    assert rest.register("a", json.dumps(json.loads(V2), indent=1)) == second
    assert len(broker.records("_schemas")) == written
    assert rest.get("/subjects") == ["a", "b"]
    assert rest.get("/subjects/a/versions") == [1, 2]
    assert rest.get(f"/schemas/ids/{first}/subjects") == ["a", "b"]
    assert rest.get(f"/schemas/ids/{first}/versions") == [
        {"subject": "a", "version": 1},
        {"subject": "b", "version": 1},
    ]


def test_registering_answers_with_the_id_alone_unless_the_client_takes_more(rest: Rest) -> None:
    id_ = rest.register("a", V1)
    answer = rest.ask("POST", "/subjects/a/versions", {"schema": V1}, LENIENT)
    assert answer.body.keys() == {"id", "version", "guid"}
    assert (answer.body["id"], answer.body["version"]) == (id_, 1)
    guid = answer.body["guid"]
    assert rest.get(f"/schemas/guids/{guid}")["schema"] == V1
    assert rest.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": id_}]


def test_a_version_is_read_by_number_and_as_the_latest(rest: Rest) -> None:
    ids = [rest.register("a", text) for text in (V1, V2)]
    view = {"subject": "a", "version": 2, "id": ids[1], "schema": V2}
    for version in ("2", "latest", "-1"):
        assert rest.get(f"/subjects/a/versions/{version}") == view
    assert rest.get("/subjects/a/versions/1")["id"] == ids[0]
    assert rest.ask("GET", "/subjects/a/versions/1/schema").text == V1
    assert rest.get(f"/schemas/ids/{ids[0]}") == {"schema": V1}
    assert rest.ask("GET", f"/schemas/ids/{ids[0]}/schema").text == V1
    assert rest.get(f"/schemas/ids/{ids[0]}?fetchMaxId=true")["maxId"] == ids[1]
    assert rest.post("/subjects/a", {"schema": V2}) == view


def test_views_have_more_fields_for_clients_that_take_them(rest: Rest) -> None:
    id_ = rest.register("a", V1)
    view = rest.ask("GET", "/subjects/a/versions/1", headers=LENIENT).body
    assert view.keys() == {"subject", "version", "id", "guid", "ts", "deleted", "schemaType", "schema"}
    assert (view["schemaType"], view["deleted"]) == ("AVRO", False)
    assert rest.ask("GET", f"/schemas/ids/{id_}", headers=LENIENT).body["guid"] == view["guid"]


@pytest.mark.parametrize("subject", ["orders/eu value", "Bücher-value", "a%b+c?d"])
def test_any_letter_can_be_in_a_subject(subject: str, rest: Rest) -> None:
    rest.register(subject, V1)
    assert rest.get("/subjects") == [subject]
    assert rest.get(f"/subjects/{quote(subject, safe='')}/versions/1")["subject"] == subject
    assert rest.get(f"/subjects?subjectPrefix={quote(subject[:3])}") == [subject]


def test_lists_can_be_read_in_parts(rest: Rest) -> None:
    for subject in ("a", "b", "c"):
        rest.register(subject, V1)
    assert rest.get("/subjects?offset=1&limit=1") == ["b"]
    assert rest.get("/subjects?deleted=false&deleted_only=false&offset=0&limit=-1") == ["a", "b", "c"]
    assert [view["subject"] for view in rest.get("/schemas?offset=2")] == ["c"]
    rest.register("a", V2)
    assert [view["version"] for view in rest.get("/schemas?subjectPrefix=a")] == [1, 2]
    assert [view["version"] for view in rest.get("/schemas?subjectPrefix=a&latestOnly=true")] == [2]
    assert rest.get("/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]


def test_an_incompatible_schema_is_refused_with_the_reason(rest: Rest) -> None:
    rest.register("a", V1)
    answer = rest.ask("POST", "/subjects/a/versions", {"schema": INCOMPATIBLE})
    assert (answer.status, answer.body["error_code"]) == (409, 409)
    message = answer.body["message"]
    assert message.startswith(
        'Schema being registered is incompatible with an earlier schema for subject "a", details: ['
    )
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in message
    assert f"{{oldSchemaVersion: 1}}, {{oldSchema: '{V1}'}}" in message
    assert "%s" not in message
    assert rest.get("/subjects/a/versions") == [1]


def test_compatibility_is_checked_without_registering(rest: Rest) -> None:
    rest.register("a", V1)
    latest = "/compatibility/subjects/a/versions/latest"
    assert rest.post(latest, {"schema": V2}) == {"is_compatible": True}
    assert rest.post(f"{latest}?verbose=true", {"schema": V2}) == {"is_compatible": True, "messages": []}
    assert rest.post(latest, {"schema": INCOMPATIBLE}) == {"is_compatible": False}
    refused = rest.post(f"{latest}?verbose=true", {"schema": INCOMPATIBLE})
    assert not refused["is_compatible"]
    assert refused["messages"]
    assert rest.post("/compatibility/subjects/none/versions/latest", {"schema": V1}) == {"is_compatible": True}
    assert rest.post("/compatibility/subjects/none/versions", {"schema": V1}) == {"is_compatible": True}
    assert rest.refusal("POST", "/compatibility/subjects/none/versions/1", {"schema": V1}) == (404, 40402)
    assert rest.refusal("POST", "/compatibility/subjects/a/versions/7", {"schema": V1}) == (404, 40402)
    assert rest.refusal("POST", "/compatibility/subjects/a/versions/0", {"schema": V1}) == (422, 42202)
    assert rest.refusal("POST", latest, {"schema": "{"}) == (422, 42201)
    assert rest.post(f"{latest}?verbose=true", {"schema": "{"})["is_compatible"] is False


def test_a_transitive_level_looks_at_all_versions(rest: Rest) -> None:
    texts = [record({"name": "id", "type": "int"}), record(ID, NOTE), record(NOTE)]
    for text in texts:
        rest.register("a", text)
    returning = record({"name": "id", "type": "string", "default": ""}, NOTE)
    assert rest.post("/compatibility/subjects/a/versions", {"schema": returning})["is_compatible"]
    rest.put("/config/a", {"compatibility": "BACKWARD_TRANSITIVE"})
    assert not rest.post("/compatibility/subjects/a/versions", {"schema": returning})["is_compatible"]
    rest.put("/config/a", {"compatibility": "NONE"})
    rest.register("a", json.dumps({"type": "string"}), schemaType="JSON")


def test_another_format_is_incompatible(rest: Rest) -> None:
    rest.register("a", V1)
    answer = rest.ask("POST", "/subjects/a/versions", {"schema": "{}", "schemaType": "JSON"})
    assert answer.status == 409
    assert "different schema type" in answer.body["message"]


def test_a_reference_is_resolved_and_protects_what_it_names(rest: Rest) -> None:
    customer = rest.register("customer", OTHER)
    reference = {"name": "Customer", "subject": "customer", "version": -1}
    order = record({"name": "customer", "type": "Customer"})
    id_ = rest.register("order", order, references=[reference])
    view = rest.get("/subjects/order/versions/1")
    assert view["references"] == [{**reference, "version": 1}]
    assert view["schema"] == order
    assert '"long"' in rest.get("/subjects/order/versions/1?format=resolved")["schema"]
    assert rest.get("/subjects/customer/versions/1/referencedby") == [id_]
    for path in ("/subjects/customer/versions/1", "/subjects/customer"):
        assert rest.refusal("DELETE", path) == (422, 42206)
    resolved = record({"name": "customer", "type": json.loads(OTHER)})
    assert rest.post("/subjects/order", {"schema": resolved})["id"] == id_
    rest.delete("/subjects/order")
    assert rest.get("/subjects/customer/versions/1/referencedby") == []
    assert rest.delete("/subjects/customer") == [1]
    assert rest.get(f"/schemas/ids/{customer}")["schema"] == OTHER
    missing = {**reference, "subject": "none"}
    assert rest.refusal("POST", "/subjects/x/versions", {"schema": order, "references": [missing]}) == (422, 42201)


def test_metadata_makes_another_version_and_can_be_searched(rest: Rest) -> None:
    first = rest.register("a", V1, metadata={"properties": {"owner": "x"}})
    second = rest.register("a", V1, metadata={"properties": {"owner": "y"}, "tags": {"id": ["PII"]}})
    assert first != second
    assert rest.register("a", V1) == second
    found = rest.get("/subjects/a/metadata?key=owner&value=x")
    assert (found["version"], found["metadata"]) == (1, {"properties": {"owner": "x"}})
    assert rest.refusal("GET", "/subjects/a/metadata?key=owner&value=z") == (404, 40403)


def test_a_compatibility_group_separates_versions_by_a_property(rest: Rest) -> None:
    rest.put("/config/a", {"compatibility": "BACKWARD", "compatibilityGroup": "major"})
    rest.register("a", V1, metadata={"properties": {"major": "1"}})
    rest.register("a", INCOMPATIBLE, metadata={"properties": {"major": "2"}})
    body = {"schema": record(ID, {"name": "x", "type": "int"}), "metadata": {"properties": {"major": "1"}}}
    assert rest.refusal("POST", "/subjects/a/versions", body) == (409, 409)


def test_normalizing_finds_a_schema_whose_properties_are_in_another_order(rest: Rest) -> None:
    text = record(ID, b=1, a=2)
    turned = record(ID, a=2, b=1)
    id_ = rest.post("/subjects/a/versions?normalize=true", {"schema": text})["id"]
    assert rest.post("/subjects/a/versions?normalize=true", {"schema": turned})["id"] == id_
    assert rest.post("/subjects/a?normalize=True", {"schema": turned})["id"] == id_
    rest.put("/config/b", {"normalize": True})
    assert rest.register("b", text) == rest.register("b", turned)


REFUSED_SCHEMAS = [
    ({"schema": "{"}, 42201),
    ({"schema": ""}, 42201),
    ({}, 42201),
    ({"schema": '"string"', "schemaType": "XML"}, 42201),
    ({"schema": record({"name": "a", "type": "int", "default": "x"})}, 42201),
    ({"schema": '"string"', "id": 7}, 42205),
    ({"schema": '"string"', "version": 2}, 42201),
]


@pytest.mark.parametrize(("body", "code"), REFUSED_SCHEMAS)
def test_a_schema_that_cannot_be_registered_is_refused(body: object, code: int, rest: Rest) -> None:
    assert rest.refusal("POST", "/subjects/a/versions", body) == (422, code)
    assert rest.get("/subjects") == []


def test_an_invalid_schema_is_named_as_such(rest: Rest) -> None:
    assert "Invalid schema" in rest.ask("POST", "/subjects/a/versions", {"schema": "nonsense"}).body["message"]


@pytest.mark.parametrize("subject", ["__GLOBAL", "__EMPTY", ":.__GLOBAL:x", "a%0Ab"])
def test_a_subject_that_cannot_have_schemas_is_refused(subject: str, rest: Rest) -> None:
    assert rest.refusal("POST", f"/subjects/{subject}/versions", {"schema": V1}) == (422, 42208)


MISSING = [
    ("GET", "/subjects/none/versions", 40401),
    ("GET", "/subjects/none/versions/1", 40401),
    ("GET", "/subjects/none/versions/latest", 40401),
    ("GET", "/subjects/a/versions/9", 40402),
    ("GET", "/subjects/a/versions/9/schema", 40402),
    ("GET", "/subjects/a/versions/9/referencedby", 40402),
    ("DELETE", "/subjects/none", 40401),
    ("DELETE", "/subjects/none/versions/1", 40401),
    ("DELETE", "/subjects/a/versions/9", 40402),
    ("GET", "/schemas/ids/999", 40403),
    ("GET", "/schemas/ids/999/schema", 40403),
    ("GET", "/schemas/ids/999/subjects", 40403),
    ("GET", "/schemas/ids/999/versions", 40403),
    ("GET", "/schemas/guids/00000000-0000-0000-0000-000000000000", 40403),
    ("GET", "/config/a", 40408),
    ("DELETE", "/config/a", 40401),
    ("GET", "/mode/a", 40409),
    ("DELETE", "/mode/a", 40401),
    ("GET", "/schemas/ids/word", 404),
    ("GET", "/schemas/guids/word", 40403),
    ("GET", "/nothing", 404),
    ("GET", "/subjects/a", 405),
    ("PUT", "/subjects", 405),
]


@pytest.mark.parametrize(("method", "path", "code"), MISSING)
def test_what_does_not_exist_is_reported_with_its_code(method: str, path: str, code: int, rest: Rest) -> None:
    rest.register("a", V1)
    assert rest.refusal(method, path) == (405 if code == 405 else 404, code)


@pytest.mark.parametrize("version", ["0", "-2", "first", "2147483648", "1.5", "%20"])
def test_a_version_that_is_none_is_refused(version: str, rest: Rest) -> None:
    rest.register("a", V1)
    for method in ("GET", "DELETE"):
        assert rest.refusal(method, f"/subjects/a/versions/{version}") == (422, 42202)


def test_looking_up_tells_an_unknown_subject_from_an_unknown_schema(rest: Rest) -> None:
    assert rest.refusal("POST", "/subjects/a", {"schema": V1}) == (404, 40401)
    rest.register("a", V1)
    assert rest.refusal("POST", "/subjects/a", {"schema": V2}) == (404, 40403)
    assert rest.refusal("POST", "/subjects/a", {"schema": "{"}) == (422, 42201)


def test_an_alias_leads_to_another_subject(rest: Rest) -> None:
    rest.register("real", V1)
    rest.put("/config/other", {"alias": "real"})
    assert rest.get("/subjects/other/versions/latest")["subject"] == "real"
    assert rest.get("/config/other")["alias"] == "real"


def test_a_schema_that_has_no_descriptor_is_reported_when_one_is_asked_for(rest: Rest) -> None:
    extension = "extend google.protobuf.FieldOptions { optional string o = 50000; }"
    message = 'message M { optional int32 a = 1 [(o) = "x"]; optional int32 b = 1; }'
    text = f'syntax = "proto2"; import "google/protobuf/descriptor.proto"; {extension} {message}'
    id_ = rest.register("a", text, schemaType="PROTOBUF")
    assert rest.get(f"/schemas/ids/{id_}")["schemaType"] == "PROTOBUF"
    assert rest.refusal("GET", f"/schemas/ids/{id_}?format=serialized") == (422, 42201)


def test_the_number_that_a_client_gives_becomes_metadata_and_a_look_up_ignores_it(rest: Rest) -> None:
    first = rest.register("a", V1, version=1)
    assert rest.get("/subjects/a/versions/1")["metadata"] == {"properties": {"confluent:version": "1"}}
    assert rest.register("a", V1) == first
    assert rest.post("/subjects/a", {"schema": V1})["version"] == 1
    assert rest.refusal("POST", "/subjects/a/versions", {"schema": V1, "version": 1}) == (422, 42201)
    rest.register("a", V2, version=2)
    assert rest.register("a", V1) == first
    assert rest.register("a", V1, version=-1) != first
    assert rest.get("/subjects/a/versions/latest")["metadata"] == {"properties": {"confluent:version": "3"}}


def test_the_order_of_avro_properties_makes_no_new_version(rest: Rest) -> None:
    id_ = rest.register("a", record(ID, b=1, a=2))
    assert rest.register("a", record(ID, a=2, b=1)) == id_
    assert rest.get("/subjects/a/versions") == [1]


def test_a_name_without_a_context_is_found_in_all_contexts(rest: Rest) -> None:
    rest.register(":.ctx:a", V1)
    assert rest.get("/subjects/a/versions/latest")["subject"] == ":.ctx:a"
    assert rest.post("/subjects/a", {"schema": V1})["subject"] == ":.ctx:a"
    assert rest.get("/schemas/ids/1?subject=a")["schema"] == V1
    assert rest.refusal("GET", "/schemas/ids/1?subject=:.ctx:b") == (404, 40403)


def test_an_empty_context_can_be_deleted(rest: Rest) -> None:
    rest.register(":.ctx:a", V1)
    assert rest.refusal("DELETE", "/contexts/.ctx") == (422, 42211)
    rest.delete("/subjects/:.ctx:a")
    rest.delete("/subjects/:.ctx:a?permanent=true")
    assert rest.ask("DELETE", "/contexts/.ctx").status == 204
    assert rest.get("/contexts?contextPrefix=.") == ["."]


def test_normalizing_sorts_references(rest: Rest) -> None:
    for name in "AB":
        rest.register(name, record(ID, name=name))
    both = [{"name": name, "subject": name, "version": 1} for name in "BA"]
    text = record({"name": "a", "type": "A"}, {"name": "b", "type": "B"})
    id_ = rest.post("/subjects/s/versions?normalize=true", {"schema": text, "references": both})["id"]
    assert rest.get(f"/schemas/ids/{id_}")["references"] == both[::-1]
    assert rest.post("/subjects/s?normalize=true", {"schema": text, "references": both})["id"] == id_
    assert rest.refusal("POST", "/subjects/s", {"schema": text, "references": both}) == (404, 40403)


def test_a_new_schema_cannot_refer_to_a_deleted_one(rest: Rest) -> None:
    rest.register("customers", OTHER)
    schema = {
        "schema": record({"name": "customer", "type": "Customer"}),
        "references": [{"name": "Customer", "subject": "customers", "version": 1}],
    }
    rest.post("/subjects/orders/versions", schema)
    rest.delete("/subjects/orders")
    rest.delete("/subjects/customers")
    assert rest.refusal("POST", "/subjects/orders/versions", schema) == (422, 42201)
    assert rest.post("/subjects/orders?deleted=true", schema)["version"] == 1


def test_metadata_with_another_number_of_the_version_gets_the_right_one(rest: Rest) -> None:
    rest.register("s", V1)
    metadata = {"properties": {"confluent:version": "7"}}
    answer = rest.post("/subjects/s/versions", {"schema": V1, "metadata": metadata})
    assert (answer["version"], answer["metadata"]) == (2, {"properties": {"confluent:version": "2"}})
