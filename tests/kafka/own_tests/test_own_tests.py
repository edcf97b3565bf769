"""A sample of Kafka's own tests, which run against minibroker in one JVM; and the list of those that cannot apply."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from tests.kafka.fixtures import or_skip
from tests.kafka.own_tests import applicability
from tests.kafka.own_tests.campaign import NEWEST
from tests.kafka.own_tests.releases import RELEASES
from tests.kafka.own_tests.runs import Jvm, fork_server
from tests.sweeps import one_in

SAMPLE: Final = {
    "kafka.server.CreateTopicsRequestTest": (),
    "kafka.api.AuthorizerIntegrationTest": ("testAuthorizationWithTopicExisting",),
    "kafka.api.GroupCoordinatorIntegrationTest": (
        "testCoordinatorFailoverAfterCompactingPartitionWithUpgradedConsumerGroup",
    ),
    "kafka.server.ControllerMutationQuotaTest": ("testSetUnsetQuota", "testPermissiveCreateTopicsRequest"),
    "kafka.server.EdgeCaseRequestTest": (),
    "kafka.server.JoinGroupRequestTest": (),
    "org.apache.kafka.tools.DeleteRecordsCommandTest": (),
}
"""The classes of the sample, and which of their methods it has; all if none is named.

The first is quick, and the only one in `make test`. It also warms up the JVM for those with short time limits.
"""


@pytest.fixture(scope="module")
def own_tests_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    """A JVM for the tests, and a fork server for their brokers."""
    release = RELEASES[NEWEST]
    or_skip(release.class_path)
    folder = tmp_path_factory.mktemp("own-tests")
    with fork_server(folder) as port, closing(Jvm(release, folder, port)) as running:
        yield running


@pytest.mark.parametrize("class_name", one_in(len(SAMPLE), SAMPLE))
def test_minibroker_passes_a_class_of_kafkas_own_tests(own_tests_jvm: Jvm, class_name: str) -> None:
    results = list(own_tests_jvm.run(class_name, SAMPLE[class_name]))
    assert any(result.outcome == "passed" for result in results)
    assert not applicability.faults(results, applicability.read_lists(NEWEST))


@pytest.mark.parametrize("emulated", RELEASES)
def test_only_methods_are_not_applicable(emulated: str) -> None:
    for name, reason in applicability.read_lists(emulated).items():
        assert name.rpartition(".")[2][0].islower() or not applicability.is_not_applicable(reason), name
