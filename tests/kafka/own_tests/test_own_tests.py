"""A sample of Kafka's own tests, which run against minibroker in one JVM; and the list of those that cannot apply."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.kafka.fixtures import or_skip
from tests.kafka.own_tests import applicability, records
from tests.kafka.own_tests.campaign import NEWEST
from tests.kafka.own_tests.releases import RELEASES
from tests.kafka.own_tests.runs import Jvm, Result, fork_server

SAMPLE: Final = {
    "kafka.api.AuthorizerIntegrationTest": (
        "testAuthorizationWithTopicExisting",
        "testAuthorizationWithTopicNotExisting",
    ),
    "kafka.api.GroupCoordinatorIntegrationTest": (
        "testCoordinatorFailoverAfterCompactingPartitionWithUpgradedConsumerGroup",
    ),
    "kafka.server.ControllerMutationQuotaTest": ("testSetUnsetQuota", "testPermissiveCreateTopicsRequest"),
    "kafka.server.CreateTopicsRequestTest": (),
    "kafka.server.EdgeCaseRequestTest": (),
    "kafka.server.JoinGroupRequestTest": (),
    "org.apache.kafka.tools.DeleteRecordsCommandTest": (),
}
"""The classes of the sample, and which of their methods it has; all if none is named."""


@pytest.fixture(scope="module")
def own_tests_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    """A JVM for the tests, and a fork server for their brokers."""
    release = RELEASES[NEWEST]
    or_skip(release.class_path)
    folder = tmp_path_factory.mktemp("own-tests")
    with fork_server(folder) as port, closing(Jvm(release, folder, port)) as running:
        yield running


@pytest.mark.parametrize("class_name", SAMPLE)
def test_minibroker_passes_a_class_of_kafkas_own_tests(own_tests_jvm: Jvm, class_name: str) -> None:
    results = list(own_tests_jvm.run(class_name, SAMPLE[class_name]))
    assert any(result.outcome == "passed" for result in results)
    assert not applicability.faults(results, applicability.read_lists(NEWEST))


def result(outcome: str, message: str = "") -> Result:
    """The result of a test that is called kafka.ATest.testIt."""
    return Result("kafka.ATest", "testIt", "testIt()", outcome, message, 0.0)


@pytest.mark.parametrize(
    ("given", "listed", "fault"),
    [
        (result("failed", "wrong"), {}, "FAILED ATest.testIt"),
        (result("failed", "INSIDE-KAFKA: x"), {}, "FAILED ATest.testIt"),
        (result("failed", "INSIDE-KAFKA: x"), {"ATest.testIt": "INSIDE-KAFKA"}, None),
        (result("failed", "wrong"), {"ATest.testIt": "INSIDE-KAFKA"}, "FAILED, though not INSIDE-KAFKA"),
        (result("failed", "wrong"), {"ATest.testIt": "CONTROLLER"}, None),
        (result("failed", "wrong"), {"ATest.testIt": "it is different"}, None),
        (result("passed"), {"ATest.testIt": "CONTROLLER"}, "LISTED, but passes: ATest.testIt"),
        (result("passed"), {"ATest.testIt": "it is different"}, "LISTED, but passes: ATest.testIt"),
        (result("skipped"), {"ATest.testIt": "CONTROLLER"}, None),
        (result("passed"), {"ATest.testOther": "CONTROLLER"}, None),
    ],
)
def test_a_run_fails_for_tests_that_disagree_with_the_list(
    given: Result, listed: dict[str, str], fault: str | None
) -> None:
    faults = applicability.faults([given], listed)
    assert [line.startswith(fault) for line in faults] == [True] if fault else not faults


def test_a_listed_test_may_pass_on_an_older_release() -> None:
    assert not applicability.faults([result("passed")], {"ATest.testIt": "CONTROLLER"}, is_newest=False)


@pytest.mark.parametrize("emulated", RELEASES)
def test_only_methods_are_not_applicable(emulated: str) -> None:
    for name, reason in applicability.read_lists(emulated).items():
        assert name.rpartition(".")[2][0].islower() or not applicability.is_not_applicable(reason), name


def test_kafka_confirms_what_does_not_ask_for_its_objects() -> None:
    listed = {"A.a": "INSIDE-KAFKA", "A.b": "CONTROLLER", "A.c": "IN-PROCESS x", "A.d": "else"}
    assert applicability.methods_to_confirm(listed) == {"A": ["b", "c"]}


def test_a_line_may_be_for_one_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(applicability, "_HERE", tmp_path)
    (tmp_path / applicability.NOT_APPLICABLE).write_text("# Why:\nkafka.A.a: CONTROLLER\n")
    (tmp_path / applicability.KNOWN_FAILURES).write_text("4.1 kafka.A.b: it is different\n")
    assert applicability.read_lists("4.1") == {"A.a": "CONTROLLER", "A.b": "it is different"}
    assert applicability.read_lists("4.3") == {"A.a": "CONTROLLER"}
    (tmp_path / applicability.KNOWN_FAILURES).write_text("kafka.A.b: INSIDE-KAFKA\n")
    with pytest.raises(ValueError, match=applicability.KNOWN_FAILURES):
        applicability.read_lists("4.3")


@pytest.mark.parametrize(
    ("listed", "tally"),
    [
        ({}, (1, 0, 1, 0)),
        ({"ATest.testIt": "CONTROLLER"}, (1, 0, 0, 1)),
        ({"ATest.testIt": "it is different"}, (1, 1, 0, 0)),
    ],
)
def test_failures_are_counted_by_the_lists(listed: dict[str, str], tally: tuple[int, ...]) -> None:
    assert records.tally([result("passed"), result("failed"), result("skipped")], listed) == tally
