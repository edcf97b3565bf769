"""Health and metrics over HTTP."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from minibroker import Broker, __version__
from tests.broker.control.http import Control


def samples(control: Control) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = control.ask("GET", "/metrics")
    assert answer.status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body)
        for sample in family.samples
    }


def of(numbers: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    return numbers[name, frozenset(labels.items())]


def test_it_tells_what_it_is_and_where_clients_connect(control: Control, broker: Broker) -> None:
    about = control.get("/")
    assert (about["name"], about["version"]) == ("minibroker", __version__)
    assert about["bootstrap_servers"] == broker.bootstrap_servers
    assert about["controller"] in broker.brokers
    assert about["registry_url"] is None


def test_an_offer_of_http_2_is_served_in_http_1_and_not_logged(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAA"}
    assert control.ask("GET", "/healthz", headers=offer).body == {"status": "ok"}
    assert caplog.records == []


def test_it_is_alive_and_not_ready_while_all_brokers_are_down(control: Control, broker: Broker) -> None:
    assert (control.get("/healthz"), control.get("/readyz")) == ({"status": "ok"}, {"status": "ok"})
    for node_id in broker.brokers:
        broker.brokers[node_id].stop()
    assert control.get("/healthz?probe=kubelet") == {"status": "ok"}
    assert control.get("/readyz", 503) == {"status": "down"}
    assert control.get("/")["controller"] is None
    assert of(samples(control), "kafka_controller_kafkacontroller_offlinepartitionscount") == 2


def test_records_bytes_and_logs_are_counted_by_topic(control: Control, broker: Broker) -> None:
    before = samples(control)
    assert ("kafka_server_brokertopicmetrics_messagesin_total", frozenset({("topic", "given")})) not in before
    broker.produce("given", *[b"x" * 100] * 10, partition=0)
    broker.produce("given", b"x", partition=1)
    numbers = samples(control)
    assert of(numbers, "kafka_server_brokertopicmetrics_messagesin_total", topic="given") == 11
    size = of(numbers, "kafka_log_log_size", topic="given", partition="0")
    assert size > 1000
    second_size = of(numbers, "kafka_log_log_size", topic="given", partition="1")
    assert of(numbers, "kafka_server_brokertopicmetrics_bytesin_total", topic="given") == size + second_size
    assert of(numbers, "kafka_log_log_logendoffset", topic="given", partition="0") == 10
    assert of(numbers, "kafka_log_log_logstartoffset", topic="given", partition="0") == 0
    assert of(numbers, "kafka_log_log_numlogsegments", topic="given", partition="0") == 1


def test_what_was_there_before_the_start_is_not_counted_as_appended() -> None:
    with Broker(control="127.0.0.1:0") as broker:
        broker.produce("orders", b"1", b"2")
        snapshot = broker.snapshot()
        broker.reset()
        broker.restore(snapshot)
        broker.produce("orders", b"3")
        numbers = samples(Control(broker.control_url))
        assert of(numbers, "kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 1
        assert of(numbers, "kafka_log_log_logendoffset", topic="orders", partition="0") == 3


def test_brokers_groups_faults_and_requests_are_counted(control: Control, broker: Broker) -> None:
    numbers = samples(control)
    assert of(numbers, "kafka_controller_kafkacontroller_activebrokercount") == 2
    assert of(numbers, "kafka_controller_kafkacontroller_globaltopiccount") == 1
    assert of(numbers, "kafka_controller_kafkacontroller_globalpartitioncount") == 2
    for node_id in broker.brokers:
        assert of(numbers, "kafka_server_replicamanager_leadercount", broker=str(node_id)) == 1
    controllers = [
        of(numbers, "kafka_controller_kafkacontroller_activecontrollercount", broker=str(each))
        for each in broker.brokers
    ]
    assert sorted(controllers) == [0, 1]
    assert of(numbers, "kafka_coordinator_group_groupmetadatamanager_numgroups") == 0
    assert ("minibroker_journal_requests_total", frozenset[tuple[str, str]]()) in numbers
    broker.faults.add(api="Fetch", delay_ms=1)
    assert of(samples(control), "minibroker_faults_fired_total", api="Fetch", action="delay") == 0


def test_open_metrics_are_written_for_who_asks_for_them(control: Control) -> None:
    answer = control.ask("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.body.endswith("# EOF\n")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers["content-type"].startswith("application/openmetrics-text")
