"""Testcontainers' own packages, unmodified, start our image, and each language's client produces and consumes.

The programs are those of docs/testcontainers.md.
"""

import functools
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.clients import toolchains
from tests.docker.engine import IMAGE, PREFIX, Engine
from tests.documented import ROOT, code
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.programs import run_program
from tests.sweeps import one_in

PAGE = "docs/testcontainers.md"
PROGRAMS = Path(__file__).with_name("programs")
TAG = f"{IMAGE}:8.0.0"
USES_OF_THE_REGISTRY = {
    "python": """
    import json, urllib.request
    registry = redpanda.get_schema_registry_address()
    body = json.dumps({"schema": '"string"'}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(f"{registry}/subjects/orders-value/versions", body, headers)
    urllib.request.urlopen(request).read()
    print(urllib.request.urlopen(f"{registry}/schemas/ids/1").read().decode())
""",
    "java": """
            var registry = kafka.getSchemaRegistryAddress();
            var http = java.net.http.HttpClient.newHttpClient();
            var body = java.net.http.HttpRequest.BodyPublishers.ofString("{\\"schema\\": \\"\\\\\\"string\\\\\\"\\"}");
            var text = java.net.http.HttpResponse.BodyHandlers.ofString();
            var versions = java.net.URI.create(registry + "/subjects/orders-value/versions");
            var request = java.net.http.HttpRequest.newBuilder(versions).header("Content-Type", "application/json");
            http.send(request.POST(body).build(), text);
            var schema = java.net.URI.create(registry + "/schemas/ids/1");
            System.out.println(http.send(java.net.http.HttpRequest.newBuilder(schema).build(), text).body());
""",
    "js": """
  const registry = container.getSchemaRegistryAddress();
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ schema: '"string"' });
  await fetch(`${registry}/subjects/orders-value/versions`, { method: "POST", headers, body });
  console.log(await (await fetch(`${registry}/schemas/ids/1`)).text());
""",
    "go": """
	registry, err := container.SchemaRegistryAddress(ctx)
	if err != nil {
		return err
	}
	body := strings.NewReader("{\\"schema\\": \\"\\\\\\"string\\\\\\"\\"}")
	if _, err := http.Post(registry+"/subjects/orders-value/versions", "application/json", body); err != nil {
		return err
	}
	answer, err := http.Get(registry + "/schemas/ids/1")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
""",
}
"""Lines that register a schema at the address that a class for Redpanda gives, and print it, by language."""
REGISTERED = r'{"schema":"\"string\""}'


@pytest.fixture(autouse=True)
def tag(engine: Engine) -> None:
    """Give the image the name that the page gives it."""
    engine.docker("tag", IMAGE, TAG)


def use_registry(program: str, language: str, start: str) -> str:
    """Return a program that also uses the registry, after the line that starts the container."""
    assert start in program
    return program.replace(start, start + USES_OF_THE_REGISTRY[language], 1)


def run(
    command: Sequence[str], engine: Engine, more: Mapping[str, str] | None = None, *, uses_registry: bool = False
) -> None:
    """Run a program, which must succeed, print the record, and remove the container that it has started."""
    printed = run_to_end(command, engine, more).splitlines()
    assert "consumed a new order" in printed
    assert (REGISTERED in printed) == uses_registry


def run_to_end(command: Sequence[str], engine: Engine, more: Mapping[str, str] | None = None) -> str:
    """Run a program, which must succeed and remove the container that it has started. Return what it prints."""
    environment = {
        **engine.environment,
        "TESTCONTAINERS_RYUK_DISABLED": "true",  # it would be a container of another image
        "TESTCONTAINERS_HOST_OVERRIDE": "localhost",  # also where the tests run in a container themselves
        "TESTCONTAINERS_CONNECTION_MODE": "docker_host",  # the same, of Python
        **(more or {}),
    }
    before = started(engine)
    with engine.network():
        done = run_program(command, env=environment)
    left = started(engine) - before
    logs = [engine.try_docker("logs", container).stdout for container in left]
    engine.try_docker("rm", "--force", "--volumes", *left)
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *logs])
    assert not left
    return done.stdout


def started(engine: Engine) -> set[str]:
    """Return the containers that other tests have not named."""
    names = engine.docker("ps", "--all", "--format", "{{.Names}}").split()
    return {name for name in names if not name.startswith(PREFIX)}


@pytest.mark.parametrize(("section", "number"), one_in(2, [("Python", 0), ("Python", 1), ("Redpanda", 0)]))
def test_python(engine: Engine, tmp_path: Path, section: str, number: int) -> None:
    text, is_redpanda = code(PAGE, section, "python")[number], section == "Redpanda"
    if is_redpanda:
        text = use_registry(text, "python", "as redpanda:\n")
    program = tmp_path / "orders.py"
    program.write_text(text)
    run([sys.executable, str(program)], engine, uses_registry=is_redpanda)


@pytest.mark.parametrize("kind", one_in(5, ["apache", "redpanda", "confluent", "old", "old with KRaft"]))
def test_java(engine: Engine, tmp_path: Path, kind: str) -> None:
    (program,) = code(PAGE, "Java", "java")
    if kind == "redpanda":
        program = program.replace("apache/kafka", "redpandadata/redpanda").replace(
            "KafkaContainer", "RedpandaContainer"
        )
        program = program.replace("org.testcontainers.kafka", "org.testcontainers.redpanda")
        program = use_registry(program, "java", "kafka.start();\n")
    elif kind != "apache":
        program = program.replace("apache/kafka", "confluentinc/cp-kafka")
    if kind == "confluent":
        program = program.replace("KafkaContainer", "ConfluentKafkaContainer")
    elif kind.startswith("old"):
        program = program.replace(
            "org.testcontainers.kafka.KafkaContainer", "org.testcontainers.containers.KafkaContainer"
        )
    if kind == "old with KRaft":
        program = program.replace("new KafkaContainer(IMAGE)", "new KafkaContainer(IMAGE).withKraft()")
    (tmp_path / "Orders.java").write_text(program)
    pom = PROGRAMS / "java" / "pom.xml"

    def fetch(made: Path) -> None:
        or_skip(functools.partial(jars.from_maven, pom, made))

    libs = toolchains.build(toolchains.place("containers-java", [pom]), fetch)
    options = ("-Xmx256m", *jars.SHORT_LIVED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    command = [or_skip(jars.java), *options, "-cp", f"{libs}/*", str(tmp_path / "Orders.java")]
    run(command, engine, uses_registry=kind == "redpanda")


@pytest.mark.torture  # two more sets of jars
@pytest.mark.parametrize("version", [3, 4])
def test_spring(engine: Engine, tmp_path: Path, version: int) -> None:
    (program,) = code(PAGE, "Spring Boot", "java")
    (tmp_path / "Orders.java").write_text(program)
    pom = PROGRAMS / f"spring-{version}" / "pom.xml"

    def fetch(made: Path) -> None:
        or_skip(functools.partial(jars.from_maven, pom, made))

    libs = toolchains.build(toolchains.place("containers-spring", [pom]), fetch)
    toolchains.compile_java([tmp_path / "Orders.java"], map(str, libs.glob("*.jar")), tmp_path / "classes")
    run(
        [or_skip(jars.java), "-Xmx256m", *jars.SHORT_LIVED, "-cp", f"{tmp_path / 'classes'}:{libs}/*", "shop.Orders"],
        engine,
    )


@pytest.mark.torture  # a cold Quarkus takes a minute
@pytest.mark.parametrize("provider", ["kafka-native", "redpanda", "strimzi"])
def test_the_dev_services_of_quarkus(engine: Engine, tmp_path: Path, provider: str) -> None:
    maven = [toolchains.tool("mvn"), "-B", "-f", str(tmp_path / "pom.xml")]
    (properties,), (program,) = code(PAGE, "Quarkus", "properties"), code(PAGE, "Quarkus", "java")
    pom = ROOT / "tests" / "clients" / "java_projects" / "quarkus.xml"
    for name, text in (
        ("pom.xml", pom.read_text()),
        ("src/main/resources/application.properties", f"{properties}quarkus.kafka.devservices.provider={provider}\n"),
        ("src/test/java/shop/OrdersTest.java", program),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    if failure := toolchains.run([*maven, "test", "-DskipTests", "quarkus:go-offline"], tmp_path):
        toolchains.missing(failure)
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0\n" in run_to_end([*maven, "-o", "test"], engine)


@pytest.mark.parametrize("kind", one_in(3, ["default", "KRaft", "redpanda"]))
def test_node(engine: Engine, tmp_path: Path, kind: str) -> None:
    (program,) = code(PAGE, "Node.js", "js")
    if kind == "KRaft":
        program = program.replace(".start()", ".withKraft().start()", 1)
    elif kind == "redpanda":
        program = program.replace("KafkaContainer", "RedpandaContainer").replace("/kafka", "/redpanda")
        address = "`${container.getHost()}:${container.getMappedPort(9093)}`"
        assert address in program
        program = program.replace(address, "container.getBootstrapServers()")
        program = use_registry(program, "js", ".start();\n")
    (tmp_path / "orders.js").write_text(program)
    node = toolchains.tool("node")
    pins = [PROGRAMS / "node" / name for name in ("package.json", "package-lock.json")]

    def install(made: Path) -> None:
        for path in pins:
            shutil.copy(path, made)
        command = [toolchains.tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        if failure := toolchains.run(command, made):
            toolchains.missing(failure)

    packages = toolchains.build(toolchains.place("containers-node", pins), install)
    variables = {"NODE_PATH": str(packages / "node_modules")}
    run([node, str(tmp_path / "orders.js")], engine, variables, uses_registry=kind == "redpanda")


@pytest.mark.torture  # Docker's packages take a minute to compile
@pytest.mark.parametrize("kind", ["kafka", "redpanda"])
def test_go(engine: Engine, tmp_path: Path, kind: str) -> None:
    (program,) = code(PAGE, "Go", "go")
    if kind == "redpanda":
        program = program.replace("modules/kafka", "modules/redpanda").replace("kafka.Run", "redpanda.Run")
        program = program.replace("servers, err := container.Brokers", "server, err := container.KafkaSeedBroker")
        program = program.replace("servers...", "server").replace('"log"\n', '"io"\n"log"\n"net/http"\n"strings"\n')
        program = use_registry(program, "go", "defer testcontainers.TerminateContainer(container)\n")
    pins = [PROGRAMS / "go" / name for name in ("go.mod", "go.sum")]
    (tmp_path / "main.go").write_text(program)

    def compile_it(made: Path) -> None:
        go = toolchains.tool("go")
        for path in pins:
            shutil.copy(path, tmp_path)
        if failure := toolchains.run([go, "mod", "download"], tmp_path):
            toolchains.missing(failure)
        options = ["-trimpath", "-buildvcs=false", "-o", str(made / "orders")]
        failure = toolchains.run([go, "build", *options, "."], tmp_path, {"CGO_ENABLED": "0"})
        assert failure is None, failure

    built = toolchains.build(toolchains.place("containers-go", [*pins, tmp_path / "main.go"]), compile_it)
    run([str(built / "orders")], engine, uses_registry=kind == "redpanda")


@pytest.mark.torture  # its 263 crates take minutes to compile
def test_rust(engine: Engine, tmp_path: Path) -> None:
    (program,) = code(PAGE, "Rust", "rust")
    (tmp_path / "main.rs").write_text(program)
    pins = [PROGRAMS / "rust" / name for name in ("Cargo.toml", "Cargo.lock")]

    def compile_it(made: Path) -> None:
        cargo, variables = toolchains.cargo()
        for path in pins:
            shutil.copy(path, tmp_path)
        if failure := toolchains.run([cargo, "fetch", "--locked"], tmp_path, variables):
            toolchains.missing(failure)
        command = [cargo, "build", "--locked", "--offline"]
        failure = toolchains.run(command, tmp_path, {**variables, "CARGO_TARGET_DIR": "target"})
        assert failure is None, failure
        shutil.copy(tmp_path / "target" / "debug" / "containers", made)

    built = toolchains.build(toolchains.place("containers-rust", [*pins, tmp_path / "main.rs"]), compile_it)
    run([str(built / "containers")], engine)
