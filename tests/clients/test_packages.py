"""The packages of other languages, as `make packages` builds them, find the program and start it without a Python.

The program in these packages is a script that runs the checkout's. The torture tests build the real one.
"""

import http.server
import json
import os
import platform
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256, sha512
from pathlib import Path
from typing import Final

import pytest

from binary import build, packages
from minibroker import __version__
from minibroker.cli.main import main as minibroker
from tests.clients import toolchains
from tests.clients.broker_process import ROOT
from tests.distribution import checksums
from tests.patience import PATIENCE_S
from tests.programs import Completed, run_program, run_to_success
from tests.sweeps import one_in

pytestmark = pytest.mark.toolchain

RUNNERS: Final = Path(__file__).with_name("runners")
PLATFORM: Final = f"{sys.platform}-{'x64' if platform.machine() == 'x86_64' else 'arm64'}"
ARCHIVE: Final = f"minibroker-{__version__}-{PLATFORM}.tar.gz"
LANGUAGES: Final = ("node", "go", "rust")
FETCHING: Final = ("go", "rust")
REAL: Final = 'exec "$THE_CHECKOUTS_MINIBROKER" "$@"'
"""It names no path, so that what is compiled around its checksum is found in the cache from any checkout."""
HOST: Final = "releases.example.com"
HANG_S: Final = 600


def write_program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def write_archive(path: Path, script: str) -> Path:
    """Write a release's archive whose program is a script."""
    folder = path.with_suffix(".folder") / "minibroker"
    write_program(folder / "minibroker", script)
    build.pack(folder, path)
    return path


class Packages:
    """The packages around one archive, and a program for each language that starts a broker with them."""

    def __init__(self, folder: Path) -> None:
        self.dist = folder / "dist"
        self.dist.mkdir()
        self.folder = folder
        self.archive = write_archive(self.dist / ARCHIVE, REAL)
        self.sum = sha256(self.archive.read_bytes()).hexdigest()
        packages.write(packages.platforms(self.dist), self.dist)

    def command(self, language: str) -> Sequence[str]:
        return {"node": self._node, "go": self._go, "rust": self._rust}[language]()

    def node_modules(self, folder: Path, *names: str) -> None:
        """Unpack npm's packages, as npm installs them."""
        for name in names:
            (packed,) = self.dist.glob(f"npm/{name.lstrip('@').replace('/', '-')}-{__version__}.tgz")
            with tarfile.open(packed) as archive:
                archive.extractall(folder / "unpacked", filter="data")
            target = folder / "node_modules" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (folder / "unpacked/package").rename(target)

    def _node(self) -> Sequence[str]:
        folder = self.folder / "node"
        if not folder.exists():
            self.node_modules(folder, "minibroker")
            shutil.copy(RUNNERS / "node/start.js", folder)
        return [toolchains.tool("node"), str(folder / "start.js")]

    def _go(self) -> Sequence[str]:
        def compile_it(made: Path) -> None:
            (made / "go.mod").write_text(f"module start\n\ngo 1.22\n\nrequire {packages.GO_MODULE} v{__version__}\n")
            shutil.copy(RUNNERS / "go/main.go", made)
            variables = {
                "GOPROXY": f"file://{self.dist}/go",
                "GONOSUMDB": "example.com",
                "GOFLAGS": "-mod=mod -modcacherw -buildvcs=false",
                "GOMODCACHE": str(self.folder / "modules"),
                "CGO_ENABLED": "0",
            }
            failure = toolchains.run([toolchains.tool("go"), "build", "-o", "start", "."], made, variables)
            assert failure is None, failure

        sources = [RUNNERS / "go/main.go", *self.dist.glob("go/example.com/minibroker/@v/*.zip")]
        return [str(toolchains.build(toolchains.place("packages-go", sources), compile_it) / "start")]

    def _rust(self) -> Sequence[str]:
        crate = self.dist / "rust/minibroker"

        def compile_it(made: Path) -> None:
            cargo, variables = toolchains.cargo()
            shutil.copy(crate / "Cargo.lock", self.folder)
            shutil.copy(RUNNERS / "rust-start/main.rs", self.folder)
            (self.folder / "Cargo.toml").write_text(
                '[package]\nname = "start"\nedition = "2021"\n[[bin]]\nname = "start"\npath = "main.rs"\n'
                f'[dependencies]\nminibroker.path = "{crate}"\n'
            )
            if failure := toolchains.run([cargo, "fetch"], self.folder, variables):
                toolchains.missing(failure)
            variables = {**variables, **toolchains.cargo_variables()}
            failure = toolchains.run([cargo, "build", "--offline"], self.folder, variables)
            assert failure is None, failure
            shutil.copy(Path(variables["CARGO_TARGET_DIR"], "debug/start"), made)

        sources = [RUNNERS / "rust-start/main.rs", *crate.rglob("*.rs"), crate / "Cargo.toml", crate / "SHA256SUMS"]
        return [str(toolchains.build(toolchains.place("packages-rust", sources), compile_it) / "start")]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    toolchains.tool("npm")
    return Packages(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def start(request: pytest.FixtureRequest, packed: Packages) -> Sequence[str]:
    """The command that starts a broker in one language."""
    return packed.command(request.param)


every_language = pytest.mark.parametrize("start", one_in(3, LANGUAGES), indirect=True)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return variables with a home of their own, and with a PATH that has no Python."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "tar", "gzip", "curl", "cat"):
        (programs / name).symlink_to(toolchains.tool(name))
    program = str(Path(sys.executable).with_name("minibroker"))
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return {"PATH": str(programs), **home, "THE_CHECKOUTS_MINIBROKER": program}


def cache(environment: Mapping[str, str]) -> Path:
    return Path(environment["XDG_CACHE_HOME"], "minibroker/binary")


def run(command: Sequence[str], environment: Mapping[str, str], **variables: str) -> Completed:
    return run_program(command, env={**environment, **variables}, timeout=HANG_S)


def fail(command: Sequence[str], environment: Mapping[str, str], **variables: str) -> str:
    """Return what a start that fails has to say."""
    completed = run(command, environment, **variables)
    assert completed.returncode == 1, completed.stdout
    assert "Traceback" not in completed.stderr
    assert "goroutine" not in completed.stderr
    return completed.stderr


@every_language
def test_a_broker_starts_from_an_archive_that_is_unpacked_once(
    start: Sequence[str], packed: Packages, environment: dict[str, str]
) -> None:
    for _ in range(2):  # The second time it is there.
        completed = run(start, environment, MINIBROKER_BINARY=str(packed.archive))
        assert re.fullmatch(r"127\.0\.0\.1:\d+\n", completed.stdout), completed.stderr
        environment["MINIBROKER_BINARY"] = ""
    assert [folder.name for folder in cache(environment).iterdir()] == [packed.sum[:16]]


@every_language
def test_the_program_is_looked_for_in_one_order(
    start: Sequence[str], packed: Packages, environment: dict[str, str], tmp_path: Path
) -> None:
    def name(where: str) -> str:
        return str(write_program(tmp_path / where, f"echo it is {where} >&2; exit 3"))

    nothing = fail(start, environment)
    assert "MINIBROKER_BINARY" in nothing
    assert PLATFORM in nothing
    write_program(Path(environment["PATH"], "minibroker"), "echo it is PATH >&2; exit 3")
    assert "it is PATH" in fail(start, environment)
    write_program(cache(environment) / packed.sum[:16] / "minibroker/minibroker", "echo it is the cache >&2; exit 3")
    cached = fail(start, environment)
    assert f"it is the cache; if the cache is damaged, remove {cache(environment) / packed.sum[:16]}" in cached
    environment["MINIBROKER_BINARY"] = name("BINARY")
    assert "it is BINARY" in fail(start, environment)
    environment["MINIBROKER_COMMAND"] = name("COMMAND")
    assert "it is COMMAND" in fail(start, environment)


@every_language
def test_a_program_of_another_version_is_refused(
    start: Sequence[str], environment: dict[str, str], tmp_path: Path
) -> None:
    older = (
        "import sys, minibroker.config.version as module; module.__version__ = '0.9.0'; from minibroker.cli import main"
    )
    script = f'exec "{sys.executable}" -c "{older}; sys.exit(main.main())" "$@"'
    program = write_program(tmp_path / "older", script)
    assert re.search(
        rf"version.* 0\.9\.0, and .* {__version__}", fail(start, environment, MINIBROKER_COMMAND=str(program))
    )


@every_language
def test_a_damaged_archive_is_refused(start: Sequence[str], environment: dict[str, str], tmp_path: Path) -> None:
    foreign = write_archive(tmp_path / ARCHIVE, "exit 3")
    assert "its SHA-256 is" in fail(start, environment, MINIBROKER_BINARY=str(foreign))
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(foreign.read_bytes()[:100])
    assert f"{broken} cannot be unpacked" in fail(start, environment, MINIBROKER_BINARY=str(broken))
    assert "no-such.tar.gz" in fail(start, environment, MINIBROKER_BINARY="no-such.tar.gz")
    assert list(cache(environment).iterdir()) == []


@every_language
def test_a_cache_that_cannot_be_written_is_named(
    start: Sequence[str], packed: Packages, environment: dict[str, str]
) -> None:
    environment["XDG_CACHE_HOME"] = "/dev/null"
    said = fail(start, environment, MINIBROKER_BINARY=str(packed.archive))
    assert "XDG_CACHE_HOME names another folder than /dev/null/minibroker/binary" in said


@every_language
def test_processes_unpack_at_the_same_time_and_unused_folders_are_removed(
    start: Sequence[str], environment: dict[str, str], tmp_path: Path
) -> None:
    archive = write_archive(tmp_path / "other.tar.gz", "echo it is unpacked >&2; exit 3")
    folder = cache(environment) / sha256(archive.read_bytes()).hexdigest()[:16]
    days = 24 * 3600
    for name, age in {"old": 40 * days, "new": 20 * days}.items():
        (cache(environment) / name).mkdir(parents=True)
        os.utime(cache(environment) / name, (0, time.time() - age))
    environment["MINIBROKER_BINARY"] = str(archive)
    starting = [
        subprocess.Popen(start, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in starting:
        _, said = process.communicate(timeout=HANG_S)
        assert "it is unpacked" in said
    assert {path.name for path in cache(environment).iterdir()} == {folder.name, "new"}
    (folder / "minibroker/minibroker").rename(folder / "minibroker/damaged")
    assert f"remove {folder}, which is damaged" in fail(start, environment)


def wait_until_refused(address: str) -> None:
    host, _, port = address.strip().rpartition(":")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port))).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.01)  # until another process has ended
    pytest.fail("the broker still runs")


@every_language
def test_a_broker_ends_with_the_process_that_has_started_it(
    start: Sequence[str], packed: Packages, environment: dict[str, str]
) -> None:
    environment["MINIBROKER_BINARY"] = str(packed.archive)
    with subprocess.Popen(start, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline()
        process.kill()
    wait_until_refused(address)


class Proxy:
    """A proxy for HTTPS that is also the server behind it: it answers each GET with these bytes."""

    def __init__(self, certificates: Path, content: bytes) -> None:
        self.targets: list[str] = []
        self._content = content
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "server.keystore.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            with client:
                self.targets.append(self._head(client).split()[1])
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                with self._context.wrap_socket(client, server_side=True) as secure:
                    self.targets.append(self._head(secure).split()[1])
                    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(self._content)}\r\nConnection: close\r\n\r\n"
                    secure.sendall(head.encode() + self._content)

    @staticmethod
    def _head(connection: socket.socket) -> str:
        received = b""
        while not received.endswith(b"\r\n\r\n"):
            received += connection.recv(4096)
        return received.decode()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    folder = tmp_path / "certificates"
    assert minibroker(["certificates", str(folder), "--host", HOST]) == 0
    return folder


@pytest.mark.parametrize("language", one_in(2, FETCHING))
def test_a_release_is_fetched_once_when_its_address_is_given(
    language: str, packed: Packages, environment: dict[str, str], certificates: Path
) -> None:
    start = packed.command(language)
    proxy = Proxy(certificates, packed.archive.read_bytes())
    trusted = str(certificates / "ca.pem")
    environment |= {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": trusted, "CURL_CA_BUNDLE": trusted}
    address = f"https://{HOST}/v{__version__}/"
    assert "MINIBROKER_RELEASES" in fail(start, environment)  # Nothing is fetched unasked.
    assert proxy.targets == []
    for _ in range(2):
        completed = run(start, environment, MINIBROKER_RELEASES=address)
        assert completed.stdout.startswith("127.0.0.1:"), completed.stderr
    proxy.close()
    assert proxy.targets == [f"{HOST}:443", f"/v{__version__}/{ARCHIVE}"]


@pytest.mark.parametrize("language", one_in(2, FETCHING))
def test_what_cannot_be_fetched_is_said_in_a_sentence(
    language: str, packed: Packages, environment: dict[str, str], certificates: Path
) -> None:
    start = packed.command(language)
    plain = fail(start, environment, MINIBROKER_RELEASES="http://127.0.0.1:1")
    assert "its address does not begin with https://" in plain
    refused = fail(start, environment, MINIBROKER_RELEASES="https://127.0.0.1:1")
    assert f"https://127.0.0.1:1/{ARCHIVE} cannot be fetched" in refused
    proxy = Proxy(certificates, b"something else")
    trusted = str(certificates / "ca.pem")
    environment |= {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": trusted, "CURL_CA_BUNDLE": trusted}
    assert "is damaged: its SHA-256 is" in fail(start, environment, MINIBROKER_RELEASES=f"https://{HOST}")
    proxy.close()
    assert not cache(environment).exists()


@pytest.fixture
def registry(packed: Packages, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a registry with the package of this platform, and the package `minibroker` that depends on it."""
    published = tmp_path / "published"
    (tmp_path / "scratch").mkdir()
    archives = {PLATFORM: packed.archive, "sunos-x64": packed.archive}
    packages.npm(archives, checksums([packed.archive]), published, tmp_path / "scratch", is_published=True)
    contents = {path.name: path.read_bytes() for path in published.iterdir()}

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = contents.get(self.path[1:])
            if content is None:
                platform_name = self.path.lower().removeprefix("/@minibroker%2f")
                file = f"minibroker-{platform_name}-{__version__}.tgz"
                system, machine = platform_name.split("-")[:2]
                integrity = f"sha512-{b64encode(sha512(contents[file]).digest()).decode()}"
                name = f"@minibroker/{platform_name}"
                placed = {"tarball": f"{url}/{file}", "integrity": integrity}
                version = {"name": name, "version": __version__, "os": [system], "cpu": [machine], "dist": placed}
                packument = {"name": name, "dist-tags": {"latest": __version__}, "versions": {__version__: version}}
                content = json.dumps(packument).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield url, published / f"minibroker-{__version__}.tgz"
        server.shutdown()


@pytest.fixture
def project(registry: tuple[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Installs `minibroker` into an empty project with options of npm, and returns its folder."""

    def install(*options: str) -> Path:
        url, package = registry
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "package.json").write_text('{"private": true}')
        npm = [toolchains.tool("npm"), "install", "--no-audit", "--no-fund", f"--@minibroker:registry={url}", *options]
        variables = {**os.environ, "npm_config_cache": str(tmp_path / "npm")}
        run_to_success([*npm, str(package)], cwd=folder, env=variables, timeout=HANG_S)
        shutil.copy(RUNNERS / "node/start.js", folder)
        return folder

    return install


@pytest.mark.torture
def test_npm_installs_the_program_for_the_platform_alone(
    project: Callable[..., Path], environment: dict[str, str]
) -> None:
    folder = project()
    assert [path.name for path in (folder / "node_modules/@minibroker").iterdir()] == [PLATFORM]
    Path(environment["PATH"], "node").symlink_to(toolchains.tool("node"))
    completed = run([toolchains.tool("node"), str(folder / "start.js")], environment)
    assert completed.stdout.startswith("127.0.0.1:"), completed.stderr
    command = str(folder / "node_modules/.bin/minibroker")
    assert run([command, "--version"], environment).stdout == f"minibroker {__version__}\n"
    assert run([command, "no-such-command"], environment).returncode == 2
    for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen(
            [command, "serve", "--listen", "127.0.0.1:0"], env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            ready = process.stdout.readline()
            process.send_signal(end)
        assert process.returncode == (-end if end == signal.SIGKILL else 0)
        wait_until_refused(ready.split("bootstrap=")[1].split()[0])


@pytest.mark.torture
def test_a_package_that_npm_has_left_out_is_named(project: Callable[..., Path], environment: dict[str, str]) -> None:
    folder = project("--omit=optional")
    node = [toolchains.tool("node"), str(folder / "start.js")]
    said = fail(node, environment)
    assert f"the package @minibroker/{PLATFORM} is not installed: npm leaves it out with --omit=optional" in said
    musl = folder / "musl.js"
    musl.write_text("process.report.getReport = () => ({ header: {} });")
    assert f"@minibroker/{PLATFORM}-musl is not installed" in fail(node, environment, NODE_OPTIONS=f"--require {musl}")
    Path(environment["PATH"], "node").symlink_to(toolchains.tool("node"))
    assert "is not installed" in fail([str(folder / "node_modules/.bin/minibroker"), "serve"], environment)


def test_packages_need_a_program_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert packages.main(str(tmp_path)) == 1
    assert "`make binary` writes it" in capsys.readouterr().err


def test_packages_know_the_checksums_of_what_they_were_built_around(packed: Packages) -> None:
    line = f"{packed.sum}  {ARCHIVE}\n"
    assert (packed.dist / "rust/minibroker/SHA256SUMS").read_text() == line
    assert not list(packed.dist.rglob("*test*"))
    for language in LANGUAGES:  # A checkout is of no release.
        assert not re.search(r"^\w{64} ", (ROOT / "clients" / language / "SHA256SUMS").read_text(), re.MULTILINE)
