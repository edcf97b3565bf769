"""`minibroker serve --control` in a separate process."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker.cli.main import main
from tests.broker.control.http import Control
from tests.clients.broker_process import BrokerProcess


def test_a_served_broker_tells_where_its_control_plane_is_and_takes_faults_from_a_file(
    broker_process: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text(json.dumps([{"api": "Produce", "delay_ms": 1}]))
    served = broker_process("--control", "127.0.0.1:0", "--journal", "5", "--faults", str(faults), "--topic", "orders")
    control = Control(served.words["control"])
    assert control.get("/")["bootstrap_servers"] == served.bootstrap
    assert control.get("/faults")["faults"] == [{"id": "1", "fired": 0, "fault": {"api": "Produce", "delay_ms": 1}}]
    assert control.get("/journal") == {"is_kept": True, "count": 0}
    control.post("/topics/orders/records", {"records": [{"value": "1"}]})
    assert control.post("/topics/orders/records/expect", {"value": "1"})["offset"] == 0
    served.terminate()


def test_the_token_may_be_in_the_environment(
    broker_process: Callable[..., BrokerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIBROKER_CONTROL_TOKEN", "secret")
    served = broker_process("--control", "127.0.0.1:0")
    control = Control(served.words["control"])
    assert control.ask("GET", "/topics").problem[0] == 401
    assert control.ask("GET", "/topics", headers={"Authorization": "Bearer secret"}).status == 200
    served.terminate()


def test_a_served_broker_can_begin_with_chaos_and_get_another_seed(
    broker_process: Callable[..., BrokerProcess],
) -> None:
    served = broker_process("--control", "127.0.0.1:0", "--chaos", "7:network", "--topic", "orders")
    control = Control(served.words["control"])
    assert len(control.get("/brokers")["brokers"]) == len(served.bootstrap.split(",")) == 3
    assert control.get("/topics/orders/configs")["configs"]["min.insync.replicas"] == "2"
    run = control.get("/chaos")
    assert (run["seed"], run["profile"]) == (7, "network")
    assert control.post("/chaos", {"seed": 8}, 201)["seed"] == 8
    assert served.words["chaos"] == "7:network"
    served.terminate()


def test_chaos_without_a_seed_or_in_one_of_several_processes_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for options, message in (
        (["--chaos", ""], "chaos: '' is not a seed such as 7, or 7:failovers"),
        (["--chaos", "7:storm"], "profile: there is no 'storm'"),
        (["--chaos", "7", "--meet", "127.0.0.1:1"], "chaos: all brokers have to be in one process, without --meet"),
    ):
        assert main(["serve", "--listen", "127.0.0.1:0", *options]) == 1
        assert message in capsys.readouterr().err
