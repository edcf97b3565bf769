"""Decisions based on rules. `tests/kafka/test_authorizer.py` compares them with Kafka's."""

from pathlib import Path

import pytest

from minibroker.cluster.cluster_metadata import ClusterMetadata
from minibroker.config import BrokerConfig
from minibroker.config.keys import ConfigError
from minibroker.security.authorization.acls import CLUSTER_NAME, AclFilter, Operation, ResourceType
from minibroker.security.authorization.authorizer import Authorizer, create_authorizer
from minibroker.security.principals import Principal
from minibroker.server.requests.session import Session
from tests.broker.harness import ADVERTISED, Harness
from tests.broker.security.authorization.rules import guarded, rule

TOPIC = ResourceType.TOPIC


@pytest.fixture
def metadata(tmp_path: Path) -> ClusterMetadata:
    """The metadata of an empty data directory."""
    return ClusterMetadata(str(tmp_path))


def made(metadata: ClusterMetadata, **properties: str) -> Authorizer:
    return Authorizer(
        BrokerConfig.from_properties({name.replace("_", "."): text for name, text in properties.items()}), metadata
    )


def session(harness: Harness, user: str = "alice", host: str = "/10.0.0.1", kind: str = "User") -> Session:
    return Session(harness.services, advertised=ADVERTISED, client_host=host, principal=Principal(kind, user))


def may(
    authorizer: Authorizer, harness: Harness, operation: Operation, name: str = "orders", user: str = "alice"
) -> bool:
    return authorizer.allows(session(harness, user), operation, TOPIC, name)


def test_principals_of_another_type_are_others(metadata: ClusterMetadata, harness: Harness) -> None:
    authorizer = made(metadata)
    authorizer.add([rule(Operation.READ, TOPIC, "orders"), rule(Operation.WRITE, TOPIC, "orders", user="*")])
    group = session(harness, kind="Group")
    assert not authorizer.allows(group, Operation.READ, TOPIC, "orders")
    assert authorizer.allows(group, Operation.WRITE, TOPIC, "orders")


def test_who_may_write_to_some_topic_may_write_idempotently(metadata: ClusterMetadata, harness: Harness) -> None:
    authorizer = made(metadata)
    alice = session(harness)
    assert not authorizer.allows_somewhere(alice, Operation.WRITE, TOPIC)
    authorizer.add([rule(Operation.WRITE, TOPIC, "ord", prefixed=True)])
    assert authorizer.allows_somewhere(alice, Operation.WRITE, TOPIC)
    authorizer.add([rule(Operation.WRITE, TOPIC, "o", prefixed=True, deny=True)])
    assert not authorizer.allows_somewhere(alice, Operation.WRITE, TOPIC)


def test_authorized_operations_are_those_that_the_rules_allow(metadata: ClusterMetadata, harness: Harness) -> None:
    authorizer = made(metadata)
    authorizer.add([rule(Operation.READ, TOPIC, "orders")])
    asked = [Operation.READ, Operation.WRITE, Operation.DESCRIBE]
    assert authorizer.operations(session(harness), TOPIC, "orders", asked) == [Operation.READ, Operation.DESCRIBE]
    assert authorizer.operations(session(harness), ResourceType.CLUSTER, CLUSTER_NAME, asked) == []


def test_decisions_are_remembered_only_until_a_rule_changes(metadata: ClusterMetadata, harness: Harness) -> None:
    authorizer = made(metadata)
    for number in range(10_050):  # more than the cache holds
        assert not may(authorizer, harness, Operation.READ, f"t{number}")
    assert len(authorizer._decisions) <= 10_000
    authorizer.add([rule(Operation.READ, TOPIC, "t", prefixed=True)])
    assert may(authorizer, harness, Operation.READ, "t10049")


def test_names_that_only_an_attacker_has_are_not_remembered(metadata: ClusterMetadata, harness: Harness) -> None:
    authorizer = made(metadata)
    assert not may(authorizer, harness, Operation.READ, "t" * 30_000)
    assert not authorizer._decisions
    authorizer.add([rule(Operation.READ, TOPIC, "t", prefixed=True)])
    assert may(authorizer, harness, Operation.READ, "t" * 30_000)


def test_rules_are_kept_with_their_ids(metadata: ClusterMetadata, tmp_path: Path) -> None:
    acls = [
        rule(Operation.READ, TOPIC, "orders"),
        rule(Operation.ALL, ResourceType.GROUP, "ü", prefixed=True, deny=True),
    ]
    made(metadata).add(acls)
    kept = metadata.read("acls")
    again = made(ClusterMetadata(str(tmp_path)))
    assert again.find(AclFilter()) == acls
    assert [each["id"] for each in kept] == [each["id"] for each in again._entries.values()]
    again.remove(acls[:1])
    assert [each["id"] for each in again._metadata.read("acls")] == [kept[1]["id"]]


@pytest.mark.parametrize("prefixed", [False, True])
def test_rules_count_until_they_are_removed(metadata: ClusterMetadata, harness: Harness, *, prefixed: bool) -> None:
    authorizer = made(metadata)
    acls = [rule(Operation.READ, TOPIC, f"t{number}", prefixed=prefixed) for number in range(4)]
    authorizer.add(acls)
    authorizer.remove([*acls[1:], *acls[1:]])
    assert authorizer.find(AclFilter()) == acls[:1]
    assert [may(authorizer, harness, Operation.READ, f"t{number}") for number in range(4)] == [True, *[False] * 3]
    authorizer.add(acls)
    assert may(authorizer, harness, Operation.READ, "t3")
    assert authorizer.find(AclFilter(*acls[2])) == acls[2:3]
    assert authorizer.find(AclFilter(*acls[2])._replace(resource_name="other")) == []


def test_what_is_replaced_from_outside_counts_at_once(
    metadata: ClusterMetadata, harness: Harness, tmp_path: Path
) -> None:
    authorizer = made(metadata)
    authorizer.add([rule(Operation.READ, TOPIC, "orders")])
    assert may(authorizer, harness, Operation.READ)
    metadata.write_first(str(tmp_path))
    metadata.load()
    assert not may(authorizer, harness, Operation.READ)


@pytest.mark.parametrize("text", ["alice", "User:alice;bob"])
def test_a_super_user_without_a_type_is_refused(text: str, metadata: ClusterMetadata) -> None:
    with pytest.raises(ConfigError, match=r"super\.users: expected a string in format principalType:principalName"):
        made(metadata, super_users=text)


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
    ],
)
def test_the_classes_that_decide_by_rules_are_served(name: str, metadata: ClusterMetadata) -> None:
    config = BrokerConfig.from_properties({"authorizer.class.name": name})
    assert isinstance(create_authorizer(config, metadata), Authorizer)


def test_a_broker_with_another_class_does_not_start_and_leaves_its_directory(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    with pytest.raises(ConfigError, match="there is no JVM here to run it; these are served: kafka"):
        Harness(directory, {"authorizer.class.name": "com.example.Opa"})
    Harness(directory).close()  # It is not locked.


def test_a_broker_without_an_authorizer_has_none(harness: Harness) -> None:
    assert harness.services.authorizer is None


def test_a_refusal_is_told_to_those_who_watch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness = guarded(tmp_path / "data")
    harness.create()
    harness.user = "bob"
    with caplog.at_level("INFO", "minibroker.security.authorization.authorizer"):
        harness.fetch_one()
        harness.fetch_one()
    assert [each.getMessage() for each in caplog.records] == ["User:bob at 127.0.0.1 may not READ TOPIC t"]
    harness.close()


def test_a_name_makes_no_lines_of_its_own_in_the_log(
    metadata: ClusterMetadata, harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "minibroker.security.authorization.authorizer")
    assert not may(made(metadata), harness, Operation.READ, "a\nforged " + "b" * 30_000)
    (line,) = caplog.messages
    assert line.startswith("User:alice at 10.0.0.1 may not READ TOPIC a\\nforged bb")
    assert len(line) < 400
