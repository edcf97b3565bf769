import pytest
from xxhash import xxh3_64_intdigest

from minibroker.coordinators.groups.modern.topics import TopicMetadata, hash_topics

TOPIC = TopicMetadata(bytes(15) + b"\1", 3)


def test_no_topics_have_the_hash_0() -> None:
    assert hash_topics({}) == 0


def test_the_hash_depends_on_name_id_and_partition_count() -> None:
    different = (
        {"t": TOPIC},
        {"u": TOPIC},
        {"t": TOPIC._replace(partitions=4)},
        {"t": TOPIC._replace(topic_id=bytes(15) + b"\2")},
        {"t": TOPIC, "u": TOPIC},
    )
    assert len({hash_topics(topics) for topics in different}) == len(different)
    assert hash_topics({"t": TOPIC, "u": TOPIC}) == hash_topics({"u": TOPIC, "t": TOPIC})


def test_a_hash_is_a_signed_64_bit_number() -> None:
    hashes = [hash_topics({name: TOPIC}) for name in "abcdefgh"]
    assert min(hashes) < 0 < max(hashes)
    assert all(-(1 << 63) <= value < 1 << 63 for value in hashes)


def test_topics_have_kafkas_hash() -> None:
    topics = {"orders": TopicMetadata(bytes(range(16)), 3), "sales": TopicMetadata(bytes(range(16, 32)), 40)}
    assert hash_topics(topics) == 6603462752361203127


@pytest.mark.parametrize(
    ("racks", "hashed"),
    [
        ((("a",), ("b",)), -7703515895374128652),
        ((("a", "b"), ()), -1348403205792034284),
        ((("a", "a"), ("rack-1",)), 1952697268777308478),
        ((("\u00e9\U0001f600",), ("a",)), 552983867612544999),
    ],
)
def test_racks_are_hashed_like_in_kafka(racks: tuple[tuple[str, ...], ...], hashed: int) -> None:
    """The expected hashes are results of `Utils.computeGroupHash` in Kafka 4.4.0."""
    assert hash_topics({"orders": TopicMetadata(bytes(7) + b"\1" + bytes(7) + b"\2", 2, racks)}) == hashed


@pytest.mark.parametrize(
    ("size", "hashed"),
    [
        (0, 3244421341483603138),
        (1, 5502495245947142431),
        (4, -2549016526957988167),
        (16, 9099606716676871632),
        (128, -492175581222641016),
        (240, -3690920546649497853),
        (241, 809349449570470400),
        (1025, 4881141889485879770),
        (5000, 3389584445137762806),
    ],
)
def test_the_hash_function_is_the_one_of_hash4j(size: int, hashed: int) -> None:
    """Kafka hashes topics with hash4j. The expected hashes are results of hash4j 0.22.0."""
    assert xxh3_64_intdigest(bytes((index * 31 + 7 + (index >> 8)) & 0xFF for index in range(size))) == hashed % (
        1 << 64
    )


def test_many_topics_and_partitions_are_hashed() -> None:
    many = {str(number): TOPIC for number in range(1_000)}
    large = {"t": TOPIC._replace(partitions=100_000)}
    assert len({hash_topics(many), hash_topics(large), hash_topics({**large, "u": TOPIC})}) == 3
