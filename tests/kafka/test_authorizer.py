"""Decisions, and what filters find, held against Kafka's own StandardAuthorizer."""

import random
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeVar

from minibroker.cluster.cluster_metadata import ClusterMetadata
from minibroker.config import BrokerConfig
from minibroker.security.authorization.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from minibroker.security.authorization.authorizer import Authorizer
from minibroker.security.principals import Principal
from tests.kafka.jvm import oracle_command
from tests.patience import PATIENCE_S

T = TypeVar("T")

SOURCE: Final = Path(__file__).with_name("AuthorizerOracle.java")
SCENARIOS: Final = 300
QUESTIONS: Final = 60
NAMES: Final = ("*", "a", "ab", "abc", "abd", "b", "hardcode", "kafka-cluster", "Ünï", "*a")
HOSTS: Final = ("10.0.0.1", "10.0.0.2")
PRINCIPALS: Final = ("User:alice", "User:bob", "User:*", "Group:alice", "User:ANONYMOUS", "User:a:b")
TYPES: Final = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS: Final = tuple(each for each in Operation if Operation.ANY < each < Operation.TWO_PHASE_COMMIT)
PERMISSIONS: Final = (PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)


class Scenario(NamedTuple):
    """A configuration, its rules, and what to ask."""

    super_users: str
    allow_everyone: bool
    acls: list[AclBinding]
    questions: list[tuple[str, str, Operation, ResourceType, str]]
    by_type: list[tuple[str, str, Operation, ResourceType]]
    filters: list[AclFilter]


def a_scenario(chance: random.Random) -> Scenario:
    # Few operations at a time, so that rules meet.
    operations = chance.sample(OPERATIONS, 4)
    acls = [
        AclBinding(
            chance.choice(TYPES),
            chance.choice(NAMES),
            chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            chance.choice(PRINCIPALS),
            chance.choice(("*", *HOSTS)),
            chance.choice(operations),
            chance.choice(PERMISSIONS),
        )
        for _ in range(chance.randrange(7))
    ]
    asked: list[Operation] = [each for each in operations if each is not Operation.ALL] or [Operation.READ]
    asked += [Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS]
    who = [each for each in PRINCIPALS if each != "User:*"]
    questions = [
        (chance.choice(who), chance.choice(HOSTS), chance.choice(asked), chance.choice(TYPES), chance.choice(NAMES))
        for _ in range(QUESTIONS)
    ]
    by_type = [
        (chance.choice(who), chance.choice(HOSTS), chance.choice(asked), chance.choice(TYPES)) for _ in range(20)
    ]
    super_users = chance.choice(("", "User:bob", " User:bob ; User:a:b;"))
    return Scenario(
        super_users, chance.random() < 0.3, list(dict.fromkeys(acls)), questions, by_type,
        [a_filter(operations, chance) for _ in range(20)],
    )  # fmt: skip


def a_filter(operations: list[Operation], chance: random.Random) -> AclFilter:
    def sometimes(value: T) -> T | None:
        return value if chance.random() < 0.4 else None

    return AclFilter(
        chance.choice((ResourceType.ANY, *TYPES)),
        sometimes(chance.choice(NAMES)),
        chance.choice((PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)),
        sometimes(chance.choice(PRINCIPALS)),
        sometimes(chance.choice(("*", *HOSTS))),
        sometimes(chance.choice(operations)) or Operation.ANY,
        sometimes(chance.choice(PERMISSIONS)) or PermissionType.ANY,
    )


def line(*words: object) -> str:
    return "\t".join(
        "\\N" if each is None else str(int(each)) if isinstance(each, int) else str(each) for each in words
    )


def ask_kafka(libs: Path, scenarios: list[Scenario]) -> list[str]:
    lines: list[str] = []
    for each in scenarios:
        lines.append(line("new", each.super_users, str(each.allow_everyone).lower()))
        lines += [line("add", *acl) for acl in each.acls]
        lines += [line("may", *question) for question in each.questions]
        lines += [line("somewhere", *question) for question in each.by_type]
        lines += [line("find", *fields) for fields in each.filters]
    command = oracle_command(SOURCE, libs, heap="256m")
    asked = "".join(f"{each}\n" for each in lines).encode()
    done = subprocess.run(command, input=asked, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def ask_ours(directory: Path, scenario: Scenario) -> list[str]:
    config = BrokerConfig.from_properties(
        {"super.users": scenario.super_users, "allow.everyone.if.no.acl.found": str(scenario.allow_everyone).lower()}
    )
    authorizer = Authorizer(config, ClusterMetadata(str(directory)))
    authorizer.add(scenario.acls)
    return [
        *(
            str(authorizer.allows(session(who, host), operation, kind, name)).lower()
            for who, host, operation, kind, name in scenario.questions
        ),
        *(
            str(authorizer.allows_somewhere(session(who, host), operation, kind)).lower()
            for who, host, operation, kind in scenario.by_type
        ),
        *(
            "|".join(sorted(line(*acl).replace("\t", " ") for acl in authorizer.find(acl_filter)))
            for acl_filter in scenario.filters
        ),
    ]


def session(principal: str, host: str) -> Any:
    kind, _, name = principal.partition(":")
    return SimpleNamespace(principal=Principal(kind, name), client_host=f"/{host}")


def test_the_authorizer_decides_as_kafka_does(kafka_libs: Path, tmp_path: Path) -> None:
    chance = random.Random(11)
    scenarios = [a_scenario(chance) for _ in range(SCENARIOS)]
    theirs = iter(ask_kafka(kafka_libs, scenarios))
    decided: set[str] = set()
    for number, scenario in enumerate(scenarios):
        (directory := tmp_path / str(number)).mkdir()
        ours = ask_ours(directory, scenario)
        expected = [next(theirs) for _ in ours]
        asked = [*scenario.questions, *scenario.by_type, *scenario.filters]
        for question, answer, right in zip(asked, ours, expected, strict=True):
            assert answer == right, (question, scenario.super_users, scenario.allow_everyone, scenario.acls)
            decided.add(answer)
    assert next(theirs, None) is None
    assert {"true", "false", ""} < decided
