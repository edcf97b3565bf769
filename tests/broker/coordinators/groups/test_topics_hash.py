from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.coordinators.groups.modern.topics_hash import hash_of

TOPIC = TopicMetadata(bytes(15) + b"\1", 3)


def test_no_topics_have_the_hash_0() -> None:
    assert hash_of({}) == 0


def test_another_name_id_or_number_of_partitions_is_another_hash() -> None:
    different = (
        {"t": TOPIC},
        {"u": TOPIC},
        {"t": TOPIC._replace(partitions=4)},
        {"t": TOPIC._replace(topic_id=bytes(15) + b"\2")},
        {"t": TOPIC, "u": TOPIC},
    )
    assert len({hash_of(each) for each in different}) == len(different)
    assert hash_of({"t": TOPIC, "u": TOPIC}) == hash_of({"u": TOPIC, "t": TOPIC})


def test_a_hash_fits_into_64_bits_with_a_sign() -> None:
    hashes = [hash_of({name: TOPIC}) for name in "abcdefgh"]
    assert min(hashes) < 0 < max(hashes)
    assert all(-(1 << 63) <= each < 1 << 63 for each in hashes)


def test_many_topics_have_a_hash_too() -> None:
    many = {str(each): TOPIC for each in range(1_000)}
    large = {"t": TOPIC._replace(partitions=100_000)}
    assert len({hash_of(many), hash_of(large), hash_of({**large, "u": TOPIC})}) == 3
