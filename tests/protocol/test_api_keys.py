from kio.schema.index import api_key_map

from minibroker_protocol.api_keys import ApiKey

# Kafka 4.0 removed the requests between brokers of a ZooKeeper-based cluster, and kio does not have them.
NEWER_THAN_KIO = {93: "STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE", 94: "UNREGISTER_CONTROLLER"}  # Kafka 4.4
BETWEEN_BROKERS_BEFORE_KRAFT = {4: "LEADER_AND_ISR", 5: "STOP_REPLICA", 6: "UPDATE_METADATA", 7: "CONTROLLED_SHUTDOWN"}


def test_every_key_has_kafkas_name_as_kio_knows_it() -> None:
    theirs = {number: name.upper() for number, name in api_key_map.items()}
    theirs = theirs | BETWEEN_BROKERS_BEFORE_KRAFT | NEWER_THAN_KIO
    assert {key.value: key.name for key in ApiKey} == theirs


def test_the_keys_run_without_a_gap_and_in_order() -> None:
    assert [int(key) for key in ApiKey] == list(range(95))


def test_no_two_names_share_a_number() -> None:
    assert len(ApiKey.__members__) == len(ApiKey)
