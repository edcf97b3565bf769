"""The lab in the image, with the options that docs/docker.md shows."""

import json
import shlex
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.docker.boxes import run_box
from tests.docker.engine import Engine
from tests.documented import code
from tests.patience import PATIENCE_S

_PORT = 8090


def test_the_image_serves_the_lab_and_its_course(engine: Engine) -> None:
    (line,) = code("docs/docker.md", "The lab", "sh")
    words = shlex.split(line)
    variable, value = words[words.index("--env") + 1].split("=")
    assert f"127.0.0.1:{_PORT}:{_PORT}" in words
    assert words[-1] == "minibroker"
    with engine.network(), run_box(engine, environment={variable: value}, ports=[_PORT]) as box:
        box.wait_for("Kafka Server started")
        token = box.logs().partition("/?token=")[2].split()[0]
        address = f"http://127.0.0.1:{box.port(_PORT)}"

        def read(path: str) -> bytes:
            request = Request(address + path, headers={"Authorization": f"Bearer {token}"})
            with urlopen(request, timeout=PATIENCE_S) as response:
                body: bytes = response.read()
                return body

        assert b"<html " in read("/")
        assert len(json.loads(read("/data/lessons"))["lessons"]) == 11
        assert json.loads(read("/data/lessons/1"))["before"]
        box.execute(["kafka-topics", "--bootstrap-server", "localhost:9092", "--create", "--topic", "orders"])
        assert "CreateTopics" in json.loads(read("/data/requests/apis"))["apis"]
        with pytest.raises(HTTPError, match="401") as refused:
            urlopen(address, timeout=PATIENCE_S)
        refused.value.close()
        listed = box.execute(["sh", "-c", "ls /opt/minibroker/lib/python*/site-packages"]).stdout
    # No package of the terminal is in the image.
    names = {name.partition("-")[0] for name in listed.split()}
    assert {"markdown_it", "mdurl", "fastapi"} <= names
    assert not {"textual", "rich", "pygments", "platformdirs", "linkify_it", "mdit_py_plugins", "uc_micro"} & names
