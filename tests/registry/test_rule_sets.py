"""Rule sets, which clients apply and the registry keeps, and reserved fields."""

import json
from typing import Any

import pytest

from minibroker import Broker
from tests.registry.rest import Rest
from tests.registry.schemas import ID, INCOMPATIBLE, NOTE, V1, V2, record

RULES: dict[str, Any] = {
    "domainRules": [
        {
            "name": "encrypt",
            "doc": "d",
            "type": "ENCRYPT",
            "tags": ["PII", "B"],
            "params": {"z": "1", "encrypt.kek.name": "k"},
            "onFailure": "ERROR,NONE",
        },
        {"name": "off", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true", "disabled": True},
    ],
    "migrationRules": [{"name": "up", "mode": "UPGRADE", "type": "JSONATA"}],
    "enableAt": "CLIENT",
}
METADATA = {"tags": {"b": ["y", "x"], "a": ["z"]}, "properties": {"q": "2", "p": "1"}, "sensitive": ["q"]}
GUID = "ecffd91c-bb04-c9a7-b7ba-324630b2dccb"
"""Made by Confluent's class Schema for the schema `"string"` with RULES and METADATA, as is STORED."""
STORED = (
    '{"migrationRules":[{"name":"up","kind":"TRANSFORM","mode":"UPGRADE","type":"JSONATA","disabled":false}],'
    '"domainRules":[{"name":"encrypt","doc":"d","kind":"TRANSFORM","mode":"WRITEREAD","type":"ENCRYPT",'
    '"tags":["B","PII"],"params":{"encrypt.kek.name":"k","z":"1"},"onFailure":"ERROR,NONE","disabled":false},'
    '{"name":"off","kind":"CONDITION","mode":"WRITE","type":"CEL","expr":"true","disabled":true}],"enableAt":"CLIENT"}'
)


def rule(name: str, **fields: str) -> dict[str, str]:
    return {"name": name, "type": "CEL", **fields}


def names_in(rule_set: dict[str, Any]) -> list[str]:
    return [rule["name"] for rule in rule_set["domainRules"]]


def test_a_rule_set_is_stored_and_hashed_as_by_confluent(broker: Broker, rest: Rest) -> None:
    body = {"schema": '"string"', "ruleSet": RULES, "metadata": METADATA}
    answer = rest.post("/subjects/s/versions", body)
    assert answer["ruleSet"] == json.loads(STORED)
    assert rest.get(f"/schemas/guids/{GUID}")["ruleSet"] == json.loads(STORED)
    rest.delete("/subjects/s/versions/1")
    stored = [record.value or b"" for record in broker.records("_schemas")]
    assert sum(f'"ruleSet":{STORED},"schema"'.encode() in value for value in stored) == 2
    assert rest.get("/subjects/s/versions/1?deleted=true")["ruleSet"] == json.loads(STORED)


def test_another_rule_set_is_another_version_and_a_new_schema_takes_it_over(rest: Rest) -> None:
    rest.register("s", V1)
    rest.post("/subjects/s/versions", {"ruleSet": {"domainRules": [rule("a")]}})
    inherited = rest.post("/subjects/s/versions", {"schema": V2})
    assert (inherited["version"], names_in(inherited["ruleSet"])) == (3, ["a"])
    assert rest.post("/subjects/s", {"schema": V2})["version"] == 3
    assert rest.post("/subjects/s", {"schema": V1})["version"] == 1
    changed = rest.post("/subjects/s/versions", {"schema": V2, "ruleSet": {"domainRules": [rule("b")]}})
    assert (changed["version"], names_in(changed["ruleSet"])) == (4, ["b"])
    listed = rest.get("/schemas?ruleType=CEL&latestOnly=true")
    assert [(version["subject"], version["version"]) for version in listed] == [("s", 4)]
    assert rest.get("/schemas?ruleType=ENCRYPT") == []


def test_the_configuration_adds_rules_to_new_schemas(rest: Rest) -> None:
    default, override = ({"domainRules": [rule(name, doc=name), rule("x", doc=name)]} for name in ("a", "c"))
    rest.put("/config/s", {"defaultRuleSet": default, "overrideRuleSet": override})
    assert names_in(rest.get("/config/s")["defaultRuleSet"]) == ["a", "x"]
    answer = rest.post("/subjects/s/versions", {"schema": V1, "ruleSet": {"domainRules": [rule("b"), rule("a")]}})
    assert names_in(answer["ruleSet"]) == ["b", "a", "c", "x"]
    assert answer["ruleSet"]["domainRules"][-1]["doc"] == "c"
    assert "doc" not in answer["ruleSet"]["domainRules"][1]


@pytest.mark.parametrize(
    "rules",
    [
        {"domainRules": [{"type": "CEL"}]},
        {"domainRules": [rule("1a")]},
        {"domainRules": [rule("a" * 257)]},
        {"domainRules": [{"name": "a"}]},
        {"domainRules": [rule("a"), rule("a")]},
        {"domainRules": [rule("a")], "encodingRules": [rule("a")]},
        {"domainRules": [rule("a", mode="UPGRADE")]},
        {"migrationRules": [rule("a")]},
        {"domainRules": [rule("a", mode="READ", onSuccess="NONE,ERROR")]},
    ],
)
def test_a_rule_that_no_client_could_apply_is_refused(rules: object, rest: Rest) -> None:
    assert rest.refusal("POST", "/subjects/s/versions", {"schema": V1, "ruleSet": rules}) == (422, 42210)
    assert rest.refusal("PUT", "/config", {"defaultRuleSet": rules}) == (422, 42210)


def test_reserved_fields_stay_reserved_and_unused(rest: Rest) -> None:
    reserved = {"properties": {"confluent:reserved": "id, other"}}
    rest.put("/config", {"compatibility": "NONE"})
    rest.put("/config/s", {"compatibility": "NONE", "validateFields": True})
    body = {"schema": V1, "metadata": reserved}
    assert rest.refusal("POST", "/subjects/s/versions", body) == (409, 409)
    rest.post("/subjects/s/versions", {**body, "schema": record(NOTE)})
    path = "/compatibility/subjects/s/versions/latest?verbose=true"
    fewer = {"schema": record(NOTE), "metadata": {"properties": {"confluent:reserved": "id"}}}
    assert "the field other" in rest.post(path, fewer)["messages"][0]
    protobuf = {"schema": "message A { oneof o { int32 other = 1; } }", "schemaType": "PROTOBUF", "metadata": reserved}
    documents = {"schema": '{"properties":{"id":{}}}', "schemaType": "JSON", "metadata": reserved}
    for refused in protobuf, documents:
        assert "and has it" in rest.post(path, refused)["messages"][0]
    assert rest.post("/subjects/t/versions", body)["id"]


def test_a_schema_is_registered_by_force(rest: Rest) -> None:
    rest.register("s", V1)
    assert rest.refusal("POST", "/subjects/s/versions", {"schema": INCOMPATIBLE}) == (409, 409)
    rest.post("/subjects/s/versions?force=true", {"schema": INCOMPATIBLE})
    assert rest.get("/subjects/s/versions") == [1, 2]


def test_schemas_are_listed_with_the_aliases_of_their_subjects(rest: Rest) -> None:
    rest.register("s", V1)
    rest.register(":.ctx:s", record(ID, name="Other"))
    for alias in "alias2", "alias1", ":.ctx:alias3":
        rest.put(f"/config/{alias}", {"alias": "s"})
    assert rest.get("/schemas?subjectPrefix=alias") == []
    listed = rest.get("/schemas?subjectPrefix=alias&aliases=true")
    assert [(version["subject"], version["aliases"]) for version in listed] == [("s", ["alias1", "alias2"])]
    everywhere = rest.get("/schemas?subjectPrefix=:*:&aliases=true")
    assert {version["subject"]: version["aliases"] for version in everywhere} == {
        "s": ["alias1", "alias2"],
        ":.ctx:s": [":.ctx:alias3"],
    }


def test_the_mode_forward_is_one_of_the_whole_registry(rest: Rest) -> None:
    for path in "/mode", "/mode/s", "/mode/:.ctx:":
        assert rest.refusal("PUT", path, {"mode": "FORWARD"}) == (422, 42204)
    rest.put("/mode/:.__GLOBAL:", {"mode": "FORWARD"})
    assert rest.refusal("POST", "/subjects/s/versions", {"schema": V1}) == (422, 42205)
    assert rest.post("/subjects/s/versions", {"schema": V1, "id": 9, "version": 3})["id"] == 9
