"""The foreign suites, and what is known of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A public Python project whose tests need a Kafka.

    Attributes:
        project: as pip knows it; `requirements/<project>.txt` makes its environment.
        version: of the source distribution, which holds the tests.
        sha256: of that distribution.
        tests: what is given to pytest, beside its options; those of its tests that want a Kafka.
        variables: environment variables by which the suite is told where Kafka is; {broker} is HOST:PORT.
        listen: HOST:PORT where the suite looks for Kafka; None where it can be told.
        starts_kafka: whether it starts Kafka itself, from a distribution that KAFKA_ROOT names.
        known: tests that fail, and why.
    """

    project: str
    version: str
    sha256: str
    tests: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    listen: str | None = None
    starts_kafka: bool = False
    known: Mapping[str, str] = field(default_factory=dict[str, str])


_NO_ACLS: Final = "DescribeAcls, CreateAcls and DeleteAcls are not served yet"

SUITES: Final = (
    Suite(
        project="kombu",
        version="5.7.0",
        sha256="31e62fdfd2381caa3422f8e02b84a491d9a2180ddda74507b57f4cb1e1c2c2c9",
        tests=("t/integration/test_kafka.py",),
        listen="127.0.0.1:9092",
    ),
    Suite(
        project="taskiq-aio-kafka",
        version="1.0.0",
        sha256="d2c378544abfbb54e79a4323322b4b402e9beeff6052aa82435c552bc7c435e3",
        tests=("tests",),
        variables={"TEST_KAFKA_URL": "{broker}"},
    ),
    Suite(
        project="faust-streaming",
        version="0.15.3",
        sha256="51d6de8d7984c1e47ce961ba4c066e82a6b69d7b02d6bc27129677c4bfb1235f",
        tests=("--no-cov", "tests/integration/broker"),
        variables={"FAUST_TEST_BROKER": "kafka://{broker}"},
    ),
    Suite(
        project="kafka-python-ng",
        version="2.2.3",
        sha256="f79f28e10ade9b5a9860b2ec15b7cc8dc510d5702f5a399430478cff5f93a05a",
        tests=(
            "test/test_admin_integration.py",
            "test/test_consumer_group.py",
            "test/test_consumer_integration.py",
            "test/test_producer.py",
        ),
        # The version that this client takes the broker for, by the versions of the APIs; one test holds it to that.
        variables={"KAFKA_VERSION": "2.6.0"},
        starts_kafka=True,
        known={
            "test/test_admin_integration.py::test_create_describe_delete_acls": _NO_ACLS,
            "test/test_admin_integration.py::test_describe_consumer_group_does_not_exist": (
                "wants COORDINATOR_NOT_AVAILABLE while the offsets' topic is being made, which takes no time here"
            ),
        },
    ),
)
