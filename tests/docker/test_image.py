"""The image without a container engine: its Dockerfile, the build context and compose.yaml."""

import fnmatch
import json
import re
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from minibroker_container.entrypoint import SECRETS_DIR
from tests.docker.building import ARCHIVE
from tests.docker.engine import IMAGE, Engine
from tests.documented import code
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
LARGEST = 71_000_000
"""The compressed size of the image in bytes."""


def instructions() -> list[tuple[str, str]]:
    """Parse the Dockerfile into instructions and their arguments, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(name, " ".join(rest.split())) for name, rest in lines]


def final_stage() -> dict[str, str]:
    """Return the last instruction of each name in the last stage."""
    all_of_them = instructions()
    start = max(place for place, (name, _) in enumerate(all_of_them) if name == "FROM")
    return dict(all_of_them[start:])


def copied_sources() -> list[str]:
    """Return the paths that the Dockerfile copies from the checkout."""
    copies = [rest.split() for name, rest in instructions() if name == "COPY" and "--from=" not in rest]
    return [source for words in copies for source in words[:-1]]


def test_the_broker_does_not_run_as_root_and_its_user_is_a_number() -> None:
    user = final_stage()["USER"]
    assert re.fullmatch(r"[1-9]\d*:\d+", user)


def test_the_image_declares_port_volume_signal_and_health_check() -> None:
    stage = final_stage()
    assert stage["EXPOSE"] == "9092"
    assert stage["VOLUME"] == '["/var/lib/minibroker"]'
    assert stage["STOPSIGNAL"] == "SIGTERM"
    for instruction in (stage["HEALTHCHECK"].split("CMD ")[1], stage["ENTRYPOINT"]):
        (program,) = json.loads(instruction)
        assert (DOCKER / "rootfs" / "usr" / "bin" / program).stat().st_mode & 0o111


def test_the_archive_has_the_health_check_of_the_dockerfile(engine: Engine) -> None:
    check = json.loads(engine.docker("image", "inspect", "--format", "{{json .Config.Healthcheck}}", IMAGE))
    assert check.pop("Test") == ["CMD", "minibroker-health"]
    assert check.pop("Retries") == 5
    seconds = {name: int(value) / 1e9 for name, value in check.items()}
    # Compose files inherit what they do not set; without a timeout that is the 30 seconds of an engine.
    assert seconds == {"StartInterval": 0.2, "Interval": 10, "StartPeriod": 10}


def test_the_build_for_several_architectures_is_of_this_dockerfile(engine: Engine) -> None:
    printed = json.loads(engine.docker("buildx", "bake", "--file", str(DOCKER / "bake.hcl"), "--print"))
    assert printed["target"]["default"]["dockerfile"] == "docker/Dockerfile"
    assert printed["target"]["default"]["platforms"] == ["linux/amd64", "linux/arm64"]


def test_every_installation_in_the_image_is_checked_by_hashes_or_needs_none() -> None:
    installs = [
        command
        for name, rest in instructions()
        if name == "RUN"
        for command in rest.split("&&")
        if re.search(r"\bpip\b.* install ", command)
    ]
    assert len(installs) == 3
    assert all("--require-hashes" in command or "--no-deps dist/" in command for command in installs)


def test_what_the_dockerfile_copies_exists_and_is_sent_to_the_engine() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for source in copied_sources():
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in kept), source
    assert sorted(copied_sources()) == sorted(kept)


def compose(name: str) -> dict[str, Any]:
    """Return the content of a Compose file."""
    yaml = pytest.importorskip("yaml")
    document: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text())
    return document


COMPOSE_FILES = sorted(path.name for path in DOCKER.glob("compose*.yaml"))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("compose.yaml", "--listen 0.0.0.0:29092 --advertise broker:29092 --also-listen 0.0.0.0:9092=localhost:9092"),
        ("compose.spark.yaml", "--listen 0.0.0.0:29092 --advertise broker:29092 --also-listen"),
        ("compose.secure.yaml", "--set listeners=SASL_SSL://:29092,HOST://:9092"),
        (
            "compose.cluster.yaml",
            "--brokers 3 --registry 0.0.0.0:8081 --listen 0.0.0.0:9092 --advertise localhost:9092",
        ),
    ],
)
def test_a_compose_file_listens_and_advertises_as_it_publishes(name: str, options: str) -> None:
    service = next(each for each in compose(name)["services"].values() if each["image"] == "minibroker")
    printed = run(
        [sys.executable, str(DOCKER / "entrypoint.py"), "--print-command"],
        env=service["environment"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert printed.stderr == ""
    command = printed.stdout.replace(" --data-dir /var/lib/minibroker", "")
    assert options in command
    (port,) = service["ports"]
    assert port.startswith("127.0.0.1:9092")


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_a_compose_file_builds_our_image_keeps_it_tight_and_names_known_things_only(name: str) -> None:
    document = compose(name)
    assert set(document) <= {"name", "services", "volumes"}
    for service in document["services"].values():
        if service["image"] != "minibroker":
            continue
        assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            assert source in document["volumes"]
            assert target in {final_stage()["VOLUME"][2:-2], SECRETS_DIR}


def test_the_environment_of_other_images_that_is_shown_serves_both_sides() -> None:
    yaml = pytest.importorskip("yaml")
    shown = code("docs/docker-kafka.md", "In the place of Kafka's images", "yaml")[0]
    environment = yaml.safe_load(shown)["services"]["broker"]["environment"]
    printed = run(
        [sys.executable, str(DOCKER / "entrypoint.py"), "--print-command"],
        env={name: str(value) for name, value in environment.items()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert printed.stderr == ""
    assert "--listen broker:29092 --advertise broker:29092" in printed.stdout
    assert "--also-listen 0.0.0.0:9092=localhost:9092" in printed.stdout


@pytest.mark.parametrize(
    ("heading", "client", "variable", "topics"),
    [
        ("With your service in Compose", "shop", "KAFKA_BOOTSTRAP_SERVERS", "--topic orders:3 --topic invoices"),
        ("A web console", "console", "KAFKA_BROKERCONNECT", "--topic orders:3 --topic payments:2"),
    ],
)
def test_the_broker_of_a_compose_file_has_the_address_that_its_client_takes(
    heading: str, client: str, variable: str, topics: str
) -> None:
    yaml = pytest.importorskip("yaml")
    (shown,) = code("docs/docker.md", heading, "yaml")
    services = yaml.safe_load(shown)["services"]
    assert services[client]["depends_on"] == {"broker": {"condition": "service_healthy"}}
    printed = run(
        [sys.executable, str(DOCKER / "entrypoint.py"), "--print-command"],
        env=services["broker"]["environment"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert f"--advertise {services[client]['environment'][variable]}" in printed.stdout
    assert topics in printed.stdout


def test_the_dockerfile_is_what_hadolint_wants() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    linted = run(
        [str(hadolint), str(DOCKER / "Dockerfile")], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (linted.returncode, linted.stdout) == (0, "")


def test_the_image_is_as_small_as_it_promises(engine: Engine) -> None:
    del engine  # It has the image of the archive.
    assert (ROOT / "build" / "image" / ARCHIVE).stat().st_size < LARGEST


def test_no_module_of_the_image_is_compiled_again_at_a_start(engine: Engine) -> None:
    """A module compiled with an unchecked hash is used without reading its source (PEP 552)."""
    program = """if True:
        import importlib.util, pathlib
        sources = [*pathlib.Path("/opt/minibroker/lib").rglob("*.py")]
        compiled = [pathlib.Path(importlib.util.cache_from_source(path)) for path in sources]
        print(len(sources), [str(path) for path in compiled if path.read_bytes()[4:8] != bytes([1, 0, 0, 0])])
    """
    done = engine.docker("run", "--rm", "--pull", "never", "--entrypoint", "python", IMAGE, "-c", program)
    count, outdated = done.split(maxsplit=1)
    assert int(count) > 100
    assert outdated == "[]"


@pytest.mark.parametrize("path", sorted(DOCKER.glob("compose*.yaml")), ids=lambda path: path.name)
def test_the_compose_files_are_what_the_compose_specification_wants(path: Path) -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    checked = run(
        [str(checker), "--builtin-schema", "vendor.compose-spec", str(path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout
