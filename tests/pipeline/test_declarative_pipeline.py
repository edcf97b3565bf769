"""The declarative pipeline of docs/spark-pipelines.md."""

import json
import os
import re
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from minibroker import Broker
from minibroker_pipeline.sink_log import committed_files
from tests.clients.broker_process import environment
from tests.documented import blocks
from tests.patience import PATIENCE_S
from tests.programs import run_to_success

PAGE = "docs/spark-pipelines.md"
FOLDER = "/tmp/orders-pipeline"


def run_pipeline(folder: Path) -> None:
    """Run the pipeline by the command of the page."""
    (command,) = [line for block in blocks(PAGE) for line in block.text.splitlines() if "spark-pipelines --" in line]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {**environment(), "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    run_to_success(["sh", "-c", command], cwd=folder, env=variables, timeout=2 * PATIENCE_S)


def invoices(broker: Broker) -> list[object]:
    """Return the values in the topic that the pipeline writes."""
    return [json.loads(record.value or b"") for record in broker.records("invoices")]


@pytest.mark.torture  # each run starts a Spark of its own
@pytest.mark.usefixtures("spark")  # without Spark, the test is skipped
def test_the_pipeline_of_the_page_reads_only_what_is_new(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path / "data"), topics=["orders:2", "invoices"]) as broker:
        for block in blocks(PAGE):
            if named := re.match(r"# (\S+)\n", block.text):
                path = tmp_path / named[1]
                path.parent.mkdir(exist_ok=True)
                text = block.text.replace(FOLDER, str(tmp_path))
                path.write_text(text.replace("127.0.0.1:9092", broker.bootstrap_servers))
        broker.produce("orders", {"id": 1, "price": 30}, {"id": 2, "price": 12}, "broken", partition=0)
        run_pipeline(tmp_path)
        assert invoices(broker) == [{"id": 1, "price": 30}, {"id": 2, "price": 12}]
        broker.produce("orders", {"id": 3, "price": 7}, partition=1)
        run_pipeline(tmp_path)
        assert invoices(broker)[2:] == [{"id": 3, "price": 7}]
    warehouse = tmp_path / "spark-warehouse"
    orders = pq.read_table(committed_files(str(warehouse / "orders"))).column("order").to_pylist()
    assert sorted(order["id"] for order in orders) == [1, 2, 3]
    assert pq.read_table(warehouse / "totals").to_pylist() == [{"orders": 3, "price": 49}]
