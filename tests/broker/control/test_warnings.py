"""Warnings in the answers of the control plane."""

from typing import Any

import pytest

from tests.broker.control.http import Control


@pytest.mark.parametrize(
    ("method", "path", "body", "warning"),
    [
        ("POST", "/topics/t/records", {"records": []}, "produce: no value is given"),
        ("GET", "/groups/nobody/lag", None, "there is no group 'nobody'"),
        ("POST", "/faults", {"node": 99, "error": "NETWORK_EXCEPTION"}, "cannot match: node: there is no broker 99"),
    ],
)
def test_the_control_plane_has_warnings_in_its_answers(
    control: Control, method: str, path: str, body: Any, warning: str
) -> None:
    (given,) = control.ask(method, path, body).body["warnings"]
    assert warning in given
    assert "warnings" not in control.ask("POST", "/topics/t/records", {"records": [{"value": "x"}]}).body
