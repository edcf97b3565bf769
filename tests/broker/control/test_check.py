"""Checks of applications over HTTP."""

from minibroker import Broker
from tests.broker.check.applications import fill, serial
from tests.broker.control.http import Control


def test_a_check_answers_with_its_result(control: Control, broker: Broker) -> None:
    broker.create_topic("in", 1)
    broker.create_topic("out", 1)
    subject = {"inputs": ["in"], "outputs": ["out"]}
    passed = {"check": "all", "outcome": "passed", "reasons": [], "findings": []}
    assert control.post("/check", {"check": "all", **subject}) == passed
    fill(broker, 3)
    serial(broker, 3)
    expected = {"k0": ["k0"], "k1": [], "k2": ["k2", "other"]}
    result = control.post("/check", {"check": "no_loss", **subject, "expected": expected, "group": "g"})
    (finding,) = result["findings"]
    assert (result["outcome"], finding["certain"], finding["topic"], finding["offset"]) == ("failed", True, "in", 2)
    assert finding["summary"].endswith("1 of its 2 outputs are missing (id 'other')")
    assert finding["time_line"][-1] == "until then the broker had no fault, no chaos and no new leader"
    assert control.post("/check", {"check": "caught_up", "group": "g", "timeout": 10})["outcome"] == "passed"
    wrong = control.post("/check", {"check": "no_loss", **subject, "key": "json:id"})
    assert (wrong["outcome"], wrong["reasons"]) == ("inconclusive", ["in-0@0 has no id"])


def test_mistakes_are_refused(control: Control) -> None:
    assert "check" in control.post("/check", {"check": "no_los"}, 400)["message"]
    for missing, check in (("inputs", "no_loss"), ("outputs", "all"), ("inputs", "commits_do_not_go_back")):
        topics = {name: [name] for name in ("inputs", "outputs") if name != missing}
        message = control.post("/check", {"check": check, **topics}, 400)["message"]
        assert message.startswith(f"{missing}: {check} needs the topics")
    assert control.post("/check", {"check": "caught_up"}, 400)["message"].startswith("group: caught_up needs")
    assert (
        "there is no topic"
        in control.post("/check", {"check": "no_loss", "inputs": ["nope"], "outputs": ["given"]}, 404)["message"]
    )
    body = {"check": "no_loss", "inputs": ["given"], "outputs": ["given"], "key": "headers:id"}
    assert "'headers:id' is none of" in control.post("/check", body, 400)["message"]
