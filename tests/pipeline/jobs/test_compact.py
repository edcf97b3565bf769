"""`compact` leaves the same logs as the broker's cleaner, and as Kafka's."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.kafka.cleaner_oracle import CleanerOracle
from tests.kafka.fixtures import or_skip
from tests.pipeline.jobs.lives import Life
from tests.sweeps import one_in

HISTORIES = 7
CLEANINGS = 4
FORMATS = pytest.mark.parametrize("oldest_format", one_in(2, [0, 2]), ids=["v0, v1 and v2", "v2"])


def check_lives(home: Path, first_seed: int, oldest_format: int, clean: Callable[[Life], bool]) -> None:
    """Let directories grow, and clean each of them repeatedly."""
    cleanings = 0
    for seed in range(HISTORIES):
        life = Life(home / f"{seed}", Random(first_seed + seed), oldest_format=oldest_format)
        for number in range(CLEANINGS):
            life.grow(to_the_end=number == CLEANINGS - 1)
            cleanings += clean(life)
            life.now_ms += life.random.choice([0, 500, 10**5 + 1])
    assert cleanings > HISTORIES


@FORMATS
def test_the_brokers_cleaner_leaves_the_same_bytes(tmp_path: Path, oldest_format: int) -> None:
    check_lives(tmp_path, 0, oldest_format, Life.clean_by_broker)


@pytest.mark.torture  # tests/kafka/test_cleaner.py compares the broker's cleaner with Kafka's
@FORMATS
def test_kafkas_cleaner_leaves_the_same_records_in_the_same_batches(
    kafka_libs: Path, tmp_path: Path, oldest_format: int
) -> None:
    with or_skip(lambda: CleanerOracle(kafka_libs)) as oracle:
        check_lives(tmp_path, 100, oldest_format, lambda life: life.clean_by_kafka(oracle))
