"""A sample of the part `streams`: a stream to Parquet that is restarted while its broker is killed."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.torture.stream_campaign import StreamCampaign
from tests.torture.stream_runs import StreamInSession

ROUNDS = 2
SEED = 1


@pytest.mark.torture
def test_parquet_holds_each_record_once_whoever_is_restarted(spark: SparkSession, tmp_path: Path) -> None:
    campaign = StreamCampaign(tmp_path, SEED, lambda errand: StreamInSession(spark, errand))
    counts = campaign.run(ROUNDS)
    assert counts["rounds"] == ROUNDS
    # A run without interruptions would prove nothing.
    for sign in ("kills of brokers", "stops of the stream", "rows", "transactions aborted"):
        assert counts[sign] > 0, f"{sign}: {counts}"
    assert spark.read.parquet(str(tmp_path / "parquet")).distinct().count() == counts["rows"]
