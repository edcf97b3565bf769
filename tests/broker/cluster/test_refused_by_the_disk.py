"""Metadata changes that cannot be written to disk are not acknowledged, for every API."""

import errno
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker.server.handlers.delegation_tokens import create_delegation_token as create_token
from minibroker.server.handlers.delegation_tokens import expire_delegation_token as expire_token
from minibroker.server.handlers.delegation_tokens import renew_delegation_token as renew_token
from minibroker.server.requests.held_for_metadata import DelayedMetadataResponse
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import reassignments
from minibroker_protocol.messages import topics as topic_messages
from minibroker_protocol.messages.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from minibroker_protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from minibroker_protocol.messages.configs import AlterableConfig as OldConfig
from minibroker_protocol.messages.configs import AlterConfigsRequest
from minibroker_protocol.messages.configs import AlterConfigsResource as OldResource
from minibroker_protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from minibroker_protocol.messages.scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from tests.broker.cluster.nodes import create as create_topic
from tests.broker.cluster.sick_disk import SickDisk
from tests.broker.config.configs import SET, TOPIC, change_request
from tests.broker.harness import Harness, Pending, create_request
from tests.broker.quotas.asking import alter_request
from tests.broker.security.tokens import SECRET, call_of, create

CODE: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)
CONFIG: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    **SECRET,
}
_ACL: Final = AclCreation(
    resource_type=2, resource_name="a", resource_pattern_type=3, principal="User:m", host="*", operation=2,
    permission_type=2,
)  # fmt: skip
_ACLS: Final = DeleteAclsFilter(
    resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None, host_filter=None,
    operation=1, permission_type=1,
)  # fmt: skip
_FEATURE: Final = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
CHANGES: Final[list[tuple[Any, int]]] = [
    (create_request("new"), 7),
    (
        topic_messages.CreatePartitionsRequest(
            topics=[topic_messages.CreatePartitionsTopic(name="t", count=3, assignments=None)], timeout_ms=20_000
        ),
        3,
    ),
    (topic_messages.DeleteTopicsRequest(topics=[topic_messages.DeleteTopicState(name="t")], timeout_ms=20_000), 6),
    (change_request(TOPIC, "t", (SET, "retention.ms", "1")), 1),
    (
        AlterConfigsRequest(
            resources=[
                OldResource(resource_type=2, resource_name="t", configs=[OldConfig(name="retention.ms", value="1")])
            ],
            validate_only=False,
        ),
        2,
    ),
    (CreateAclsRequest(creations=[replace(_ACL, resource_name="b")]), 3),
    (DeleteAclsRequest(filters=[_ACLS]), 3),
    (alter_request(({"user": "m"}, {"producer_byte_rate": 1000.0})), 1),
    (
        AlterUserScramCredentialsRequest(
            deletions=[],
            upsertions=[
                ScramCredentialUpsertion(
                    name="m", mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32)
                )
            ],
        ),
        0,
    ),
    (UpdateFeaturesRequest(feature_updates=[_FEATURE]), 2),
    (
        reassignments.ElectLeadersRequest(
            election_type=0, topic_partitions=[reassignments.TopicPartitions(topic="t", partitions=[0])]
        ),
        2,
    ),
    (
        reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                reassignments.ReassignableTopic(
                    name="t", partitions=[reassignments.ReassignablePartition(partition_index=0, replicas=[2, 1])]
                )
            ]
        ),
        0,
    ),
]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """Return two brokers whose next change will not be on disk immediately."""
    brokers = Harness(str(tmp_path / "data"), CONFIG, brokers=2)
    create_topic(brokers, by_hand=((1, 2),))
    brokers.ask(CreateAclsRequest(creations=[_ACL]), 3)  # The next generation has a backup, so it is synced later.
    brokers.core.cluster.move_leader("t", 0, 2)
    brokers.run_soon()
    yield brokers
    brokers.close()


def codes(response: Any) -> set[int]:
    """Return all error codes in a response."""
    error_codes = set[int]()
    for field in fields(response):
        value = getattr(response, field.name)
        if field.name == "error_code":
            error_codes.add(value)
        elif isinstance(value, list):
            error_codes = error_codes.union(*(codes(element) for element in value if is_dataclass(element)))
    return error_codes


@pytest.mark.parametrize(("request_", "version"), CHANGES, ids=[type(change).__name__ for change, _ in CHANGES])
def test_a_change_whose_fsync_fails_is_answered_storage_error(
    harness: Harness, sick: SickDisk, request_: Any, version: int
) -> None:
    sick.is_sick = True
    pending = harness.send(request_, version)
    assert isinstance(pending, Pending)
    assert codes(pending.response) == {CODE}
    sick.is_sick = False
    assert codes(harness.ask(create_request("u"), 7)) == {0}
    assert not harness.core.durability.is_behind


@pytest.mark.parametrize("kind", ["create", "renew", "expire"])
def test_a_token_whose_fsync_fails_is_answered_storage_error(harness: Harness, sick: SickDisk, kind: str) -> None:
    hmac = create(harness).hmac
    sick.is_sick = True
    call = call_of(harness)
    delayed: Any
    if kind == "create":
        delayed = create_token(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), call)
    elif kind == "renew":
        delayed = renew_token(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=1000), call)
    else:
        delayed = expire_token(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=1000), call)
    assert isinstance(delayed, DelayedMetadataResponse)
    responses: list[Any] = []
    delayed.deliver = responses.append
    harness.run_soon()
    (response,) = responses
    assert codes(response) == {CODE}


@pytest.mark.parametrize("index", [10, 11])
def test_a_leader_that_cannot_be_written_down_is_refused(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, index: int
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)

    request, version = CHANGES[index]
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        assert codes(harness.ask(request, version)) == {CODE}
    response = harness.ask(request, version)
    assert response.error_code == 0
