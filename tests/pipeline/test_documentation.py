"""The commands on the Spark pages run, with our directories and addresses."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from minibroker import Broker
from minibroker_pipeline.cli import main
from minibroker_registry.http_source import HttpSource
from minibroker_registry.values import Values
from tests.clients.broker_process import environment
from tests.clients.kafka_python_client import KafkaProducer
from tests.documented import ROOT, Block, blocks
from tests.patience import PATIENCE_S
from tests.pipeline.producing import Message, create, produce
from tests.registry.rest import Rest
from tests.registry.schemas import V1

ELSEWHERE: Final = {
    ("docs/spark.md", "Spark"): "installs packages",
    ("docs/spark.md", "On a cluster"): "test_cluster.py",
    ("docs/spark-jobs.md", "How fast is reading?"): "takes minutes; small in a test of its own",
    ("docs/spark-example.md", "An example: the standard library in Spark"): "test_examples.py",
}
"""Blocks that other tests run, or that no test runs, with the reason."""
COMMAND: Final = re.compile(r"^minibroker-pipeline(.*)$", re.MULTILINE)
PLACES: Final = ("/var/lib/minibroker", "/var/lib/kafka", "/backup/kafka", "s3://mirror/kafka")
RECORDS: Final = 20


def order(number: int) -> dict[str, object]:
    """Return an order that fits the schemas of all pages."""
    return {"id": number, "name": "Ada", "customer": f"c{number % 3}", "amount": 1.5, "at": "2024-05-17T12:00:00Z"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker's directory with the topics that the pages mention."""
    path = tmp_path_factory.mktemp("logs") / "data"
    with Broker(data_dir=str(path), registry=True) as broker:
        with Rest(broker.registry_url) as rest:
            rest.register("payments-value", V1)
        payment = Values(HttpSource(broker.registry_url)).encode({"id": 7}, "payments-value")
        produce(broker.bootstrap_servers, "payments", [Message(payment)])
        for topic, config in (("orders", {}), ("users", {"cleanup.policy": "compact"}), ("lines-zstd", {})):
            create(broker.bootstrap_servers, topic, 4, config)
            records = [Message(json.dumps(order(n)).encode(), b"%d" % (n % 5), n % 4) for n in range(RECORDS)]
            produce(broker.bootstrap_servers, topic, records)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of this process."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def here(logs: Path, home: Path) -> Callable[[str], str]:
    """A function that replaces the paths of a page by ours."""
    tmp_path = home
    (tmp_path / "orders.json").write_text("".join(json.dumps(order(n)) + "\n" for n in range(RECORDS)))
    ours = {place: str(tmp_path / place.replace("s3:/", "").lstrip("/")) for place in PLACES}
    for path in ours.values():
        shutil.copytree(logs, path)

    def translate(text: str) -> str:
        for place, path in ours.items():
            text = text.replace(place, path)
        return text.replace("/var/lib/", f"{tmp_path}/var/lib/").replace(f"{tmp_path}{tmp_path}", str(tmp_path))

    return translate


def pieces(page: str) -> Iterator[Block]:
    """Yield the blocks to run here. Blocks in any other language are output."""
    result = [block for block in blocks(page) if block.language in {"python", "sh"}]
    assert result
    return (block for block in result if (page, block.heading) not in ELSEWHERE)


# Spark's JVM keeps its first working directory, so relative paths are made absolute.
RELATIVE: Final = re.compile(
    r"""((?:parquet\(|start\(|committed_files\(|payload\), )")(?=orders)"""
    r"""|(")(?=orders\.checkpoint)|( )(?=orders\.(?:json|parquet))"""
)


def made_absolute(text: str) -> str:
    return RELATIVE.sub(lambda found: f"{found[0]}{os.getcwd()}/", text)


def run_all(page: str, namespace: dict[str, Any], translate: Callable[[str], str]) -> None:
    """Run the blocks of a page one after the other. A block may create a directory that an earlier block created."""
    for block in pieces(page):
        for path in Path("var/lib").glob("*ed"):  # Remove "compacted" and "converted".
            shutil.rmtree(path)
        where = f"{page}, line {block.line}"
        text = made_absolute(translate(block.text))
        if block.language == "python":
            exec(compile("\n" * block.line + text, page, "exec"), namespace)
            continue
        commands = COMMAND.findall(text.replace("\\\n", " "))
        assert len(commands) == len(text.replace("\\\n", " ").splitlines()), f"{where}: what is this?\n{text}"
        for command in commands:
            arguments = shlex.split(command)
            if "--to" in arguments:  # The page expects a new directory.
                shutil.rmtree(arguments[arguments.index("--to") + 1], ignore_errors=True)
            assert main(arguments) == 0, f"{where}: minibroker-pipeline{command}"
    if "query" in namespace:
        assert namespace["query"].awaitTermination(60)  # This raises the stream's error.


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("docs/spark-source.md", marks=pytest.mark.torture),  # the tests of `source` run much the same
        *("docs/spark-jobs.md", "docs/spark-example.md"),
    ],
)
def test_pages_on_log_files(page: str, spark: SparkSession, here: Callable[[str], str], tmp_path: Path) -> None:
    run_all(page, {"spark": spark, "data_dir": str(tmp_path / "written")}, here)
    spark.sql("DROP TABLE IF EXISTS orders")


def test_the_page_on_topics(spark: SparkSession, home: Path) -> None:
    with Broker(topics=["orders:3", "orders-again:3", "people"], data_dir=str(home / "data")) as broker:
        records = [Message(json.dumps(order(n)).encode(), partition=n % 3) for n in range(RECORDS)]
        produce(broker.bootstrap_servers, "orders", records)
        namespace: dict[str, Any] = {}
        run_all("docs/spark.md", namespace, lambda text: text.replace("127.0.0.1:9092", broker.bootstrap_servers))
        assert namespace["table"].count() == RECORDS
        assert spark.read.parquet(str(home / "orders-of-today")).count() == RECORDS
        again = spark.read.format("minibroker").option("topics", "orders-again,people").load(str(home / "data"))
        assert again.groupBy("topic").count().orderBy("topic").collect() == [("orders-again", RECORDS), ("people", 2)]


def test_the_page_on_going_on_with_kafka_writes_to_a_topic(
    spark: SparkSession, here: Callable[[str], str], tmp_path: Path
) -> None:
    """test_to_kafka.py runs the other blocks."""
    (block,) = [block for block in blocks("docs/spark-to-kafka.md") if block.language == "python"]
    with Broker(topics=["orders-again:4"], data_dir=str(tmp_path / "again")) as broker:
        text = here(block.text).replace("127.0.0.1:9092", broker.bootstrap_servers)
        exec(text, {"spark": spark})
    copied = spark.read.format("minibroker").load(str(tmp_path / "again"))
    assert [row["count"] for row in copied.groupBy("partition").count().collect()] == [RECORDS // 4] * 4


def test_a_broker_runs_as_its_page_says(logs: Path, tmp_path: Path) -> None:
    (program,) = [block for block in pieces("docs/serve.md") if block.language == "python"]
    assert KafkaProducer.__name__ in program.text  # The module is imported at the top, where its warnings are allowed.
    exec(program.text, {})
    serve, dump = [block.text for block in pieces("docs/serve.md") if block.language == "sh"]
    command, ready = serve.splitlines()
    pattern = re.escape(ready.removeprefix("# ")).replace("9092", r"\d+").replace("4711", r"\d+")
    with subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command), "--listen", "127.0.0.1:0"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            assert re.fullmatch(pattern, broker.stdout.readline().strip())
        finally:
            broker.terminate()
    file = str(next((logs / "orders-0").glob("*.log")))
    for documented in dump.splitlines():
        if "-decoder" in documented:  # The tests in tests/storage/dump cover these.
            continue
        line = (
            documented.partition(" # ")[0].replace("FILE.log", file).replace("./data/orders-0", str(logs / "orders-0"))
        )
        arguments = shlex.split(line)
        completed = subprocess.run(
            [sys.executable, "-m", *arguments], env=environment(), capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert completed.returncode == 0, line
        assert completed.stdout


def test_nothing_is_left_out_that_is_not_there() -> None:
    for page, heading in ELSEWHERE:
        assert blocks(page, heading), f"{page}: {heading}"
    assert all((ROOT / page).exists() for page, _ in ELSEWHERE)
