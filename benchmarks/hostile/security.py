"""Requests about rights, users and quotas, and requests of clients that have not logged in."""

import zlib
from dataclasses import replace

from benchmarks.hostile.bytes_of import frame, uvarint
from benchmarks.hostile.case import TOPIC, WATCHED, Attack, Cases, Target, sent
from benchmarks.wire import WireError
from minibroker_protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from minibroker_protocol.messages.client_quotas import AlterClientQuotasRequest, AlterEntryData, EntityData, OpData
from minibroker_protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialUpsertion,
    UserName,
)
from minibroker_protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest

_CASES = Cases()
case = _CASES.case
_LITERAL, _READ, _ALLOW = 3, 3, 3
_SCRAM_SHA_512, _MOST_ITERATIONS = 2, 16_384
_CLIENT_METRICS = 16
"""The resource type of client metrics subscriptions."""
_GZIP = 1
_SECURED = replace(WATCHED, is_secured=True)
_SLOW = replace(WATCHED, names_take_s=2.0)


def _acls(target: Target, size: int) -> CreateAclsRequest:
    creations = [
        AclCreation(
            resource_type=TOPIC,
            resource_name=name,
            resource_pattern_type=_LITERAL,
            principal="User:some",
            host="*",
            operation=_READ,
            permission_type=_ALLOW,
        )
        for name in target.names(size)
    ]
    return CreateAclsRequest(creations=creations)


def _create(target: Target, size: int) -> None:
    for result in target.ask(_acls(target, size), 2).results:
        if result.error_code:
            raise WireError(f"CreateAcls: {result.error_code} {result.error_message}")


@case("CreateAcls of 1,000 rules", 1_000, broker=_SECURED)
def create_acls(target: Target, size: int) -> Attack:
    return sent((_acls(target, size), 2))


@case("DescribeAcls of 1,000 rules", 1_000, broker=_SECURED)
def describe_acls(target: Target, size: int) -> Attack:
    _create(target, size)
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return sent((request, 2))


@case("DeleteAcls of 1,000 rules by 1,000 filters", 1_000, broker=_SECURED)
def delete_acls(target: Target, size: int) -> Attack:
    _create(target, size)
    filters = [
        DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter=name,
            pattern_type_filter=_LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=_READ,
            permission_type=_ALLOW,
        )
        for name in target.names(size)
    ]
    return sent((DeleteAclsRequest(filters=filters), 2))


def _quotas(entity_type: str, names: list[str], key: str) -> AlterClientQuotasRequest:
    entries = [
        AlterEntryData(
            entity=[EntityData(entity_type=entity_type, entity_name=name)],
            ops=[OpData(key=key, value=10.0, remove=False)],
        )
        for name in names
    ]
    return AlterClientQuotasRequest(entries=entries, validate_only=False)


@case("AlterClientQuotas of 1,000 client ids", 1_000)
def alter_quotas(target: Target, size: int) -> Attack:
    return sent((_quotas("client-id", target.names(size), "producer_byte_rate"), 1))


@case(
    "AlterClientQuotas of 2 hosts by name, resolver takes 2 s",
    2,
    broker=_SLOW,
    alone="its resolver cannot be slowed down from here",
)
def alter_quotas_by_name(target: Target, size: int) -> Attack:
    names = [f"{name}.example" for name in target.names(max(size, 2))]
    return sent((_quotas("ip", names, "connection_creation_rate"), 1))


@case("AlterUserScramCredentials of 1,000 users, most iterations", 1_000)
def alter_users(target: Target, size: int) -> Attack:
    upsertions = [
        ScramCredentialUpsertion(
            name=name,
            mechanism=_SCRAM_SHA_512,
            iterations=_MOST_ITERATIONS,
            salt=b"salt" * 8,
            salted_password=bytes(64),
        )
        for name in target.names(size)
    ]
    return sent((AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions), 0))


@case("DescribeUserScramCredentials of 10,000 unknown users", 10_000)
def describe_users(target: Target, size: int) -> Attack:
    users = [UserName(name=name) for name in target.names(size)]
    return sent((DescribeUserScramCredentialsRequest(users=users), 0))


@case(
    "PushTelemetry of 1 MB that unpacks to 900 MB",
    900,
    alone="it serves this only with a plug-in that receives metrics",
)
def push_telemetry(target: Target, size: int) -> Attack:
    resource = IncrementallyAlteredResource(
        resource_type=_CLIENT_METRICS,
        resource_name=target.tag,
        configs=[
            IncrementallyAlteredConfig(name="metrics", config_operation=0, value="*"),
            IncrementallyAlteredConfig(name="interval.ms", config_operation=0, value="100"),
        ],
    )
    target.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    subscribed = target.ask(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)), 0)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1_000_000)
    packed = b"".join([*(packer.compress(zeros) for _ in range(size)), packer.flush()])
    request = PushTelemetryRequest(
        client_instance_id=subscribed.client_instance_id,
        subscription_id=subscribed.subscription_id,
        terminating=False,
        compression_type=_GZIP,
        metrics=packed,
    )
    return sent((request, 0))


@case("20 refused ApiVersions of 524 KB before a login", 262_000, broker=_SECURED)
def before_login(target: Target, size: int) -> Attack:
    del target
    refused = frame(18, 3, uvarint(size) + b"\x7f\x00" * size + b"\x02-\x02a\x00")
    return Attack(frames=(refused,) * 20, at="sasl")


@case("10,000 refused ApiVersions before a login", 10_000, broker=_SECURED)
def refused_before_login(target: Target, size: int) -> Attack:
    del target
    return Attack(frames=(frame(18, 3, b"\x00\x02-\x02a\x00"),) * size, at="sasl")


@case("100 connections begin a frame of 500 KB before a login", 100, broker=_SECURED)
def begun_before_login(target: Target, size: int) -> Attack:
    del target
    begun = frame(18, 3, bytes(500_000))[:-1]
    return Attack(frames=(begun,), connections=size, at="sasl", is_answered=False)


CASES = tuple(_CASES.found)
