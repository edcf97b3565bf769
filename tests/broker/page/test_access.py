"""Access to the page, and the permissions that it grants itself in a browser."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest

from minibroker import Broker
from minibroker.cli.main import lesson_path, main, make_parser, open_browser
from tests.broker.control.http import Control
from tests.clients.broker_process import BrokerProcess
from tests.patience import PATIENCE_S

STATIC = Path(__file__).parents[3] / "minibroker_lab/page/static"


@pytest.mark.parametrize("path", ["/", "/requests", "/requests/17", "/logs/orders/0?offset=42", "/data/lab"])
def test_every_answer_has_a_strict_policy_for_its_content(page: Control, path: str) -> None:
    headers = {name.lower(): value for name, value in page.ask("GET", path).headers.items()}
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert headers["x-content-type-options"] == "nosniff"


def test_each_address_is_the_page(page: Control) -> None:
    answers = {page.ask("GET", path).body for path in ("/", "/requests/17", "/logs/orders/0", "/nowhere")}
    assert len(answers) == 1
    assert '<script type="module" src="/files/app.js">' in answers.pop()


def test_files_and_data_that_are_not_there_are_404(page: Control) -> None:
    for path in ("/files/none.js", "/files/../app.py", "/files/%2e%2e/app.py", "/data/none"):
        assert page.ask("GET", path).problem[:2] == (404, "not_found")


def test_the_page_loads_nothing_but_its_own_files() -> None:
    for path in STATIC.rglob("*"):
        if path.suffix not in {".js", ".css", ".html"} or "vendor" in path.parts:
            continue
        text = path.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org)", text), path
        assert "innerHTML" not in text, path
        assert not re.search(r"\b(eval|Function)\(", text), path
        if path.suffix == ".html":
            assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", text), path
        for imported in re.findall(r'from "([^"]+)"', text):
            assert (path.parent / imported).is_file(), (path, imported)


def test_each_vendored_module_has_its_version_and_licence_beside_it() -> None:
    listed = (STATIC / "vendor/README.md").read_text()
    for path in (STATIC / "vendor").glob("*.js"):
        (line,) = [line for line in listed.splitlines() if line.startswith(f"| `{path.name}`")]
        assert re.search(r"\| \d+\.\d+\.\d+ \|", line)
    for name in re.findall(r"`(LICENSE-\S+)`", listed):
        assert (STATIC / "vendor" / name).is_file()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
def test_a_name_that_someone_else_gives_this_machine_is_refused(page: Control, host: str) -> None:
    assert page.ask("GET", "/data/lab", headers={"Host": host}).problem[:2] == (403, "forbidden")
    assert page.ask("GET", "/", headers={"Host": host}).problem[:2] == (403, "forbidden")


def test_other_pages_can_do_nothing(page: Control, page_broker: Broker) -> None:
    page_broker.produce("orders", b"1")
    answer = page.ask("POST", "/control/reset", headers={"Origin": "http://evil.example"})
    assert answer.problem[:2] == (403, "forbidden")
    assert page_broker.records("orders")


def test_a_misspelt_parameter_is_refused(page: Control) -> None:
    assert "apii: unknown query parameter" in page.ask("GET", "/data/requests?apii=Fetch").problem[2]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Control]:
    with Broker(page="127.0.0.1:0", control_token="secret") as broker:
        yield Control(broker.page_url)


@pytest.mark.parametrize("path", ["/", "/data/lab", "/control/topics", "/files/app.js", "/?token=wrong"])
def test_without_the_token_nothing_is_served(guarded: Control, path: str) -> None:
    assert guarded.ask("GET", path).problem[:2] == (401, "unauthorized")


def test_the_token_in_the_address_becomes_a_cookie_of_this_port(guarded: Control) -> None:
    answer = guarded.ask("GET", "/requests?token=secret")
    assert (answer.status, answer.headers["location"]) == (303, "/requests")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"minibroker-lab-{guarded.port}=secret;")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    headers = {"Cookie": cookie.partition(";")[0]}
    assert guarded.ask("GET", "/data/lab", headers=headers).status == 200
    assert guarded.ask("GET", "/data/lab", headers={"Cookie": f"minibroker-lab-{guarded.port}=wrong"}).status == 401
    assert guarded.ask("GET", "/data/lab", headers={"Authorization": "Bearer secret"}).status == 200


@pytest.mark.parametrize("path", ["//evil.example/?token=secret", "/%5Cevil.example?token=secret"])
def test_a_token_leads_to_no_other_host(guarded: Control, path: str) -> None:
    assert re.match(r"/[^/\\]", guarded.ask("GET", path).headers["location"])


def test_a_page_needs_an_address() -> None:
    with pytest.raises(ValueError, match="page: 'nowhere' is not HOST:PORT"):
        Broker(page="nowhere")
    with pytest.raises(TypeError, match=r"page: 1\.5 is of type float; write Broker\(page=True\)"):
        Broker(page=1.5)  # type: ignore[arg-type]  # the point of the test


def test_serve_tells_where_the_page_is(broker_process: Callable[..., BrokerProcess]) -> None:
    served = broker_process("--page", "127.0.0.1:0")
    assert Control(served.words["page"]).get("/data/lab")["bootstrap_servers"] == served.bootstrap
    served.terminate()


def test_lab_takes_what_serve_takes(capsys: pytest.CaptureFixture[str]) -> None:
    def options(command: str) -> set[str]:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        return set(re.findall(r"--[a-z-]+", capsys.readouterr().out))

    assert options("lab") - options("serve") == {"--answers", "--lesson", "--no-browser", "--terminal"}
    assert options("serve") - options("lab") == set()


@pytest.mark.parametrize(
    ("options", "token", "address"),
    [
        ([], None, ""),
        (["--lesson", "5"], None, "/lessons/5"),
        (["--lesson", "5", "--answers"], "secret", "/lessons/5?answers=1&token=secret"),
        (["--answers"], None, "/lessons?answers=1"),
        ([], "secret", "/?token=secret"),
    ],
)
def test_the_browser_opens_the_lesson(
    monkeypatch: pytest.MonkeyPatch, options: list[str], token: str | None, address: str
) -> None:
    opened = Queue[str]()
    monkeypatch.setattr("webbrowser.open", opened.put)
    page = "http://127.0.0.1:8090"
    open_browser(page + lesson_path(make_parser(["lab"]).parse_args(["lab", *options])), token)
    assert opened.get(timeout=PATIENCE_S) == page + address


def test_a_lesson_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["lab", "--lesson", "99"])
    assert "argument --lesson: invalid choice: 99" in capsys.readouterr().err
