"""The waits of test suites: starting, resetting and stopping brokers, and the memory that a thousand tests leave.

    python -m benchmarks.in_tests [--rounds 20] [--tests 1000]

No peer takes part, so this needs no Java; the clients are confluent-kafka's. Each figure is a median in ms of wall
time, with the least and the most beside it, and a median of CPU time, which hardly depends on other processes. The
targets are for a machine that has nothing else to do.

- `with Broker()`: from the call to a broker that accepts connections, in a process that has imported the package.
- `minibroker serve`: from the spawn to its ready line.
- reset: 50 topics with records; each reset meets topics that were made and filled again.
- first group: FindCoordinator and one OffsetCommit of a group, the first since the last reset; the reset after it.
- imports: what `import minibroker` and the pytest plugin add to a process that has imported pytest.
- tests: each produces to a topic of its own, consumes it, and resets. Memory is the resident set of the whole process.
- first test: a wheel in an empty environment, and a test with a real client. The figures: pytest's, the process's.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, Producer

from benchmarks import wire
from benchmarks.clients.groups import await_coordinator, commit
from minibroker import Broker

ROOT = Path(__file__).parents[1]
TOPICS = 50
RECORDS = 20
FIRST_TEST = """
from confluent_kafka import Producer

def test_the_broker_acknowledges_a_record(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders", b"hello")
    assert producer.flush(10) == 0 and kafka.records("orders")[0].value == b"hello"
"""


def groups(rounds: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Time a first group after a reset, and the reset of a broker that has one."""
    first: list[tuple[float, float]] = []
    resets_behind: list[tuple[float, float]] = []
    with Broker() as broker:
        for _ in range(rounds + 1):
            broker.create_topic("topic", 1)
            with wire.Connection(broker.address) as connection:

                def begin(connection: wire.Connection = connection) -> None:
                    await_coordinator(connection, "group")
                    commit(connection, "group", "topic", range(1))

                first.append(timed(begin))
            resets_behind.append(timed(broker.reset))
    return first[1:], resets_behind[1:]


def imports() -> tuple[float, float]:
    """Time only our imports, in a new process."""
    program = (
        "import time, pytest; wall, cpu = time.perf_counter(), time.process_time();"
        "import minibroker, minibroker.pytest_plugin;"
        "print(time.perf_counter() - wall, time.process_time() - cpu)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    wall, cpu = map(float, printed.split())
    return wall * 1000, cpu * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tests", type=int, default=1000, help="0 leaves them out")
    parser.add_argument("--no-first-test", action="store_true", help="builds no wheel and no environment")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # With it, each start would compile its imports.
    print(f"load average: {os.getloadavg()[0]:.1f}")
    report("with Broker(), ready", repeated(start_in_process, options.rounds), target=30)
    report("minibroker serve, ready", repeated(start_process, options.rounds), target=150)
    report(f"reset of {TOPICS} topics", resets(options.rounds), target=2)
    first, resets_behind = groups(options.rounds)
    report("first group of a test", first, target=3)
    report("reset with a group", resets_behind, target=2)
    report("import, pytest plugin", repeated(imports, options.rounds), target=30)
    if options.tests:
        memory(options.tests)
    if not options.no_first_test:
        first_test()


def report(name: str, samples: list[tuple[float, float]], *, target: float) -> None:
    wall = sorted(each for each, _ in samples)
    cpu = statistics.median(each for _, each in samples)
    median = statistics.median(wall)
    verdict = "" if median <= target else "  MISSED"
    print(f"{name:32} {median:8.2f} ms ({wall[0]:.2f}-{wall[-1]:.2f}), CPU {cpu:.2f} ms, target {target} ms{verdict}")


def repeated(measure: Callable[[], tuple[float, float]], rounds: int) -> list[tuple[float, float]]:
    """Return repeated timings. The first is not counted, because the page cache is still cold."""
    return [measure() for _ in range(rounds + 1)][1:]


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Return the wall time and CPU time of a call in this process, in ms."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


def start_in_process() -> tuple[float, float]:
    broker = Broker()
    taken = timed(broker.start)
    broker.stop()
    return taken


def start_process() -> tuple[float, float]:
    command = [sys.executable, "-m", "minibroker.cli.main", "serve", "--listen", "127.0.0.1:0"]
    script = Path(sys.executable).with_name("minibroker")
    if script.exists():
        command[:3] = [str(script)]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        taken = (time.perf_counter() - began) * 1000
        cpu = cpu_of(child.pid)
        child.terminate()
    assert b"ready" in line
    return taken, cpu


def cpu_of(pid: int) -> float:
    """Return the CPU time of a process in ms, to the system's clock tick, or 0 without /proc."""
    with suppress(FileNotFoundError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")
    return 0.0


def resets(rounds: int) -> list[tuple[float, float]]:
    def fill(broker: Broker) -> None:
        for number in range(TOPICS):
            broker.create_topic(f"topic-{number}", 1)
            broker.produce(f"topic-{number}", *[b"x" * 100] * RECORDS)

    taken: list[tuple[float, float]] = []
    with Broker() as broker:
        for _ in range(rounds):
            fill(broker)
            taken.append(timed(broker.reset))
    return taken


def memory(tests: int) -> None:
    after: list[int] = []
    with Broker() as broker:
        began = time.perf_counter()
        for number in range(tests):
            one_test(broker, f"topic-{number}")
            broker.reset()
            if (number + 1) % max(1, tests // 5) == 0:
                after.append(resident())
        seconds = time.perf_counter() - began
    steps = ", ".join(f"{each / 2**20:.1f}" for each in after)
    print(f"{f'{tests} tests with a client each':32} {seconds * 1000 / tests:8.2f} ms each; resident MiB: {steps}")


def one_test(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    producer.produce(topic, b"hello")
    assert producer.flush(10) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = consumer.poll(10)
    assert message is not None
    assert message.value() == b"hello"
    consumer.close()


def resident() -> int:
    with suppress(FileNotFoundError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def first_test() -> None:
    """Build a wheel, install it with confluent-kafka and pytest, and run pytest three times."""
    with tempfile.TemporaryDirectory(prefix="minibroker-first-test-") as directory:
        run = subprocess.run
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, str(ROOT)]
        run(build, check=True, stdout=subprocess.DEVNULL)
        [wheel] = Path(directory).glob("*.whl")
        run([sys.executable, "-m", "venv", f"{directory}/env"], check=True)
        python = f"{directory}/env/bin/python"
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        run([*pip, str(wheel), "confluent-kafka", "pytest"], check=True)
        Path(directory, "test_first.py").write_text(FIRST_TEST)
        for _ in range(4):
            began = time.perf_counter()
            done = run(
                [python, "-m", "pytest", "test_first.py"], cwd=directory, check=False, capture_output=True, text=True
            )
            seconds = time.perf_counter() - began
            summary = re.findall(r"=+ (.*) =+", done.stdout)[-1:]
            print(f"{'first test, from the wheel':32} {summary} by pytest's own clock, {seconds:.2f} s for the process")


if __name__ == "__main__":
    main()
