"""The KIPs that brought fields: by the module of an API, the KIP of a version, and of its first one if that has a KIP.

A field came with the first version that has it. The table is drawn from the comments in Kafka's message definitions and
from the KIPs themselves. The fields of version 0 of the oldest APIs have none, since those are older than KIPs; neither
have a few that came with a version without a KIP (`retention_time_ms` in OffsetCommit 2). Where a sentence names
another KIP, that one explains the field better: a throttle time, a topic id, a leader epoch.
"""

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from minibroker_protocol import primitives as p
from minibroker_protocol.schema import fields_of

_PACKAGE: Final = "minibroker_protocol.messages"

KIPS: Final[Mapping[str, Mapping[int, int]]] = {
    "add_offsets_to_txn": {0: 98},
    "add_partitions_to_txn": {0: 98, 4: 890},
    "add_raft_voter": {0: 853, 1: 1186},
    "allocate_producer_ids": {0: 730},
    "alter_client_quotas": {0: 546},
    "alter_configs": {0: 133},
    "alter_partition": {0: 497, 1: 704, 2: 841, 3: 903},
    "alter_partition_reassignments": {0: 455, 1: 860},
    "alter_replica_log_dirs": {0: 113},
    "alter_share_group_offsets": {0: 932},
    "alter_user_scram_credentials": {0: 554},
    "api_versions": {0: 35, 3: 511},
    "consumer_group_describe": {0: 848, 1: 1099},
    "consumer_group_heartbeat": {0: 848},
    "controlled_shutdown": {2: 380},
    "create_acls": {0: 140, 1: 290},
    "create_delegation_token": {0: 48, 3: 373},
    "create_partitions": {0: 195},
    "create_topics": {0: 4, 1: 108, 5: 525, 7: 516},
    "current_leader": {0: 951},
    "delete_acls": {0: 140, 1: 290},
    "delete_groups": {0: 229, 3: 1331},
    "delete_records": {0: 107},
    "delete_share_group_offsets": {0: 932},
    "delete_share_group_state": {0: 932},
    "delete_topics": {0: 4, 5: 599, 6: 516},
    "describe_acls": {0: 140, 1: 290},
    "describe_client_quotas": {0: 546},
    "describe_cluster": {0: 700, 1: 919, 2: 1073},
    "describe_configs": {0: 133, 1: 226, 3: 569},
    "describe_delegation_token": {0: 48, 3: 373},
    "describe_groups": {0: 40, 3: 430, 4: 345, 6: 1043},
    "describe_log_dirs": {0: 113, 3: 784, 4: 827, 5: 1066},
    "describe_producers": {0: 664},
    "describe_quorum": {0: 595, 1: 836, 2: 853},
    "describe_share_group_offsets": {0: 932, 1: 1226},
    "describe_topic_partitions": {0: 966},
    "describe_transactions": {0: 664},
    "describe_user_scram_credentials": {0: 554},
    "elect_leaders": {0: 183, 1: 460},
    "end_txn": {0: 98, 5: 890},
    "envelope": {0: 590},
    "expire_delegation_token": {0: 48},
    "fetch": {3: 74, 4: 98, 5: 107, 7: 227, 9: 320, 11: 392, 12: 595, 13: 516, 15: 903, 16: 951, 17: 853, 18: 1166},
    "find_coordinator": {1: 98, 4: 699},
    "get_telemetry_subscriptions": {0: 714},
    "heartbeat": {3: 345},
    "incremental_alter_configs": {0: 339},
    "init_producer_id": {0: 98, 3: 360},
    "initialize_share_group_state": {0: 932},
    "join_group": {1: 62, 5: 345, 7: 559, 8: 800, 9: 814},
    "leader_and_isr": {1: 112, 2: 380, 3: 455, 5: 516, 6: 704, 7: 866},
    "leave_group": {3: 345, 5: 800},
    "list_config_resources": {0: 1000, 1: 1142},
    "list_groups": {0: 40, 4: 518, 5: 848},
    "list_offsets": {1: 79, 2: 98, 4: 320, 10: 1075},
    "list_partition_reassignments": {0: 455},
    "list_transactions": {0: 664, 1: 994, 2: 1152},
    "metadata": {1: 4, 2: 78, 5: 112, 7: 320, 8: 430, 10: 516, 13: 1102},
    "offset_commit": {6: 320, 7: 345, 10: 516},
    "offset_delete": {0: 496},
    "offset_fetch": {2: 88, 5: 320, 7: 447, 8: 709, 9: 848, 10: 516},
    "offset_for_leader_epoch": {0: 101, 1: 279, 2: 320, 3: 392},
    "produce": {2: 32, 3: 98, 5: 107, 8: 467, 10: 951, 13: 516},
    "push_telemetry": {0: 714},
    "read_share_group_state": {0: 932},
    "read_share_group_state_summary": {0: 932, 1: 1226},
    "remove_raft_voter": {0: 853},
    "renew_delegation_token": {0: 48},
    "sasl_authenticate": {0: 152, 1: 368},
    "sasl_handshake": {0: 43},
    "share_acknowledge": {0: 932, 2: 1222},
    "share_fetch": {0: 932, 2: 1206},
    "share_group_describe": {0: 932},
    "share_group_heartbeat": {0: 932},
    "stop_replica": {1: 380, 3: 570, 4: 866},
    "streams_group_describe": {0: 1071, 1: 1331},
    "streams_group_heartbeat": {0: 1071, 1: 1331},
    "streams_group_topology_description_update": {0: 1331},
    "streams_tasks": {0: 1071},
    "sync_group": {3: 345, 5: 559},
    "topology_description": {0: 1331},
    "txn_offset_commit": {0: 98, 2: 320, 3: 447, 6: 516},
    "unregister_broker": {0: 631},
    "unregister_controller": {0: 1312},
    "update_features": {0: 584, 1: 778},
    "update_metadata": {1: 2, 2: 36, 3: 103, 4: 112, 5: 380, 7: 516, 8: 866},
    "write_share_group_state": {0: 932, 1: 1226},
    "write_txn_markers": {0: 98, 2: 1228},
}
STORED: Final[Mapping[str, int]] = {
    "consumer_groups": 848,
    "share_group_state": 932,
    "share_groups": 932,
    "streams_groups": 1071,
    "transaction_log": 98,
}
"""The KIPs of records that coordinators store, by their modules; those of classic groups have none."""
_NONE: Final[Mapping[int, int]] = MappingProxyType({})


def kip_of(place: str) -> int | None:
    """The KIP with which a field came, by its place ("fetch.FetchRequest.max_bytes"); None for none."""
    module = place.partition(".")[0]
    if module in STORED:
        return STORED[module]
    kips = KIPS.get(module, _NONE)
    return kips.get(first_versions(module).get(place, -1)) if kips else None


@cache
def first_versions(module: str) -> Mapping[str, int]:
    """The first version of each field of an API's messages, by its place; of structures of many APIs it is 0."""
    name = f"{_PACKAGE}.{module}"
    declared = [each for each in vars(import_module(name)).values() if getattr(each, "__module__", None) == name]
    classes = [each for each in declared if isinstance(each, type) and is_dataclass(each)]
    messages = [each for each in classes if each.__name__.endswith(("Request", "Response"))]
    found: dict[str, int] = {}
    for each in messages or classes:
        _walk(each, 0, found)
    return found


def _walk(cls: type[Any], least: int, found: dict[str, int]) -> None:
    for field in fields_of(cls):
        place = f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}.{field.name}"
        first = max(least, field.present.first)
        found[place] = min(first, found.get(place, first))
        if not isinstance(field.kind, p.WireType):
            _walk(field.kind, first, found)
