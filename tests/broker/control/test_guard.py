"""Access to the control plane, and its listening addresses."""

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from minibroker import Broker
from minibroker.cli.main import main
from minibroker_storage.installation_hints import missing
from tests.broker.control.http import Answer, Control
from tests.clients.broker_process import environment
from tests.programs import run_program


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.1:1", "[::1]:9", "LOCALHOST:80"])
def test_names_of_this_machine_are_served(control: Control, host: str) -> None:
    assert control.ask("GET", "/", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "192.0.2.1"]
)
def test_a_name_that_someone_else_gives_this_machine_is_refused(control: Control, host: str) -> None:
    assert control.ask("GET", "/", headers={"Host": host}).problem[:2] == (403, "forbidden")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_a_web_page_can_do_nothing(control: Control, broker: Broker, origin: str) -> None:
    broker.produce("given", b"1")
    answer = control.ask("POST", "/reset", headers={"Origin": origin})
    assert answer.problem[:2] == (403, "forbidden")
    assert len(broker.records("given")) == 1


@pytest.fixture(scope="module")
def guarded() -> Iterator[Control]:
    with Broker(control="0.0.0.0:0", control_token="secret") as broker:
        assert broker.control_url.startswith("http://127.0.0.1:")
        yield Control(broker.control_url)


def test_who_has_the_token_is_served_under_any_name(guarded: Control) -> None:
    headers = {"Authorization": "Bearer secret", "Host": "broker.test:9900"}
    assert guarded.ask("GET", "/topics", headers=headers).status == 200


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer wrong", "secret", "Basic \u00e9"])
def test_who_has_not_the_token_is_refused(guarded: Control, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = guarded.ask("GET", "/topics", headers=headers)
    assert answer.problem[:2] == (401, "unauthorized")
    assert {name.lower(): value for name, value in answer.headers.items()}["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_told_without_the_token(guarded: Control, path: str) -> None:
    assert guarded.get(path) == {"status": "ok"}


@pytest.mark.parametrize("address", ["0.0.0.0:0", ":0", "192.0.2.1:0", "[::]:0", "example.org:1"])
@pytest.mark.parametrize("option", ["control", "page"])
def test_an_address_that_others_can_reach_needs_a_token(option: str, address: str) -> None:
    with pytest.raises(ValueError, match=f"{option}: .* can be reached from other machines, so a token is needed"):
        Broker(**{option: address})  # type: ignore[arg-type]  # both options take an address


@pytest.mark.parametrize("token", ["", "two words", "\u00e9"])
def test_a_token_that_no_header_can_carry_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="control_token: a token is one word of ASCII characters"):
        Broker(control="127.0.0.1:0", control_token=token)


def test_an_address_in_use_is_told_and_nothing_is_left_running() -> None:
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            OSError, match=f"cannot listen on 127.0.0.1:{port} for control: .* picks a free one: --control"
        ):
            Broker(control=f"127.0.0.1:{port}").start()
    assert set(threading.enumerate()) <= before


def test_a_broker_without_a_control_plane_or_a_page_has_no_address_of_one() -> None:
    with Broker(page=False) as broker:
        with pytest.raises(RuntimeError, match="there is no control plane"):
            _ = broker.control_url
        with pytest.raises(RuntimeError, match="there is no page"):
            _ = broker.page_url


@pytest.mark.parametrize(
    ("command", "option", "extra"), [(["serve"], "control", "control"), (["lab", "--no-browser"], "page", "lab")]
)
def test_without_the_extra_the_command_line_says_in_one_line_what_is_missing(
    command: list[str], option: str, extra: str
) -> None:
    arguments = [*command, "--listen", "127.0.0.1:0", f"--{option}", "127.0.0.1:0"]
    program = (
        f"import sys; sys.modules['fastapi'] = None\nfrom minibroker.cli.main import main\nsys.exit(main({arguments}))"
    )
    result = run_program([sys.executable, "-c", program], env=environment())
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"minibroker: {option}: {missing('fastapi', extra)}\n"


def test_the_command_line_wants_a_token_for_an_address_that_others_can_reach(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MINIBROKER_CONTROL_TOKEN", raising=False)
    assert main(["serve", "--control", "0.0.0.0:0"]) == 1
    assert "control: 0.0.0.0:0 can be reached from other machines" in capsys.readouterr().err
    assert main(["serve", "--control", "nowhere"]) == 1
    assert "control: 'nowhere' is not HOST:PORT" in capsys.readouterr().err


def test_whoever_waits_when_the_broker_stops_is_told() -> None:
    answers: list[Answer] = []
    with Broker(control="127.0.0.1:0", journal=True) as broker:
        control = Control(broker.control_url)

        def wait() -> None:
            answers.append(control.ask("POST", "/topics/never/records/wait", {"timeout": 600}))

        async def until_it_waits() -> None:
            while not any(  # noqa: ASYNC110 - nobody tells that a request has come
                "Remote.__call__" in repr(task) for task in asyncio.all_tasks()
            ):
                await asyncio.sleep(0)

        waiting = threading.Thread(target=wait)
        waiting.start()
        broker.wait(until_it_waits())
    waiting.join()
    assert answers[0].problem == (503, "unavailable", "the broker is not running")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_does_not_send_requests_for_pages_elsewhere(control: Control, site: str) -> None:
    """An image on such a page sends a GET request without an Origin header."""
    sent_by_image = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert control.ask("GET", "/", headers=sent_by_image).problem[:2] == (403, "forbidden")
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert control.ask("GET", "/", headers=link).status == 200


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_pages_and_the_user_are_served(control: Control, site: str) -> None:
    assert control.ask("GET", "/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "image"}).status == 200
