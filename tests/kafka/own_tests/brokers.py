"""A fork server for the brokers of Kafka's tests: a connection gets brokers in a process of its own.

    python -m tests.kafka.own_tests.brokers PORT_FILE

It imports the broker once and writes the port it listens on to PORT_FILE. The first line on a connection is a JSON
object that describes the cluster (`RemoteBrokers.java`); its answer has the ports. Each further line is a request with
the field `do`. The process ends with the connection. The fork server ends with its stdin.
"""

import base64
import contextlib
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from minibroker import Broker
from minibroker.cluster.partition import Partition
from minibroker.security.authorization.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from minibroker.security.principals import Principal
from minibroker.security.sasl.jaas import JaasError, section_of, server_logins
from minibroker.security.sasl.scram import MECHANISM_NUMBERS, ScramCredential
from minibroker.server import connection
from minibroker.server.requests.session import Session
from minibroker.server.services import Services

SCRATCH: Final = "MINIBROKER_OWN_TESTS_SCRATCH"
"""The environment's name for the folder of the data directories."""
_NOT_LOADED: Final = ("cli", "pytest_plugin", "__main__")
"""Modules of `minibroker` that no broker of these tests uses."""
_NOT_IN_KAFKA: Final = {"minibroker.client.workarounds.enable": "false", "minibroker.replication.factor.strict": "true"}
"""The configuration with which a cluster waits and checks replication factors as Kafka does."""
_NOT_IN_MINIBROKER: Final = {
    *("listeners", "broker.rack", "log.dir", "log.dirs", "metadata.log.dir", "process.roles"),
    *("controller.listener.names", "controller.quorum.voters", "controller.quorum.bootstrap.servers", "broker.id"),
}
"""Keys of Kafka's nodes whose values are options of a `Broker`, or that it has no use for."""
_SSL_PRINCIPALS: Final = {
    "SslEndToEndAuthorizationTest$TestPrincipalBuilder": "RULE:^O=A server,CN=.*$/server/,"
    "RULE:^O=A .*,CN=super-user$/server/,DEFAULT"
}
"""The classes of Kafka's tests that name a principal after its certificate, as `ssl.principal.mapping.rules`."""
_PRINCIPAL_BUILDERS: Final = {
    "AbstractAuthorizerIntegrationTest$PrincipalBuilder": "User",
    "GroupAuthorizerIntegrationTest$GroupPrincipalBuilder": "Group",
    "PlaintextEndToEndAuthorizationTest$TestClientPrincipalBuilder": "User",
    "PlaintextEndToEndAuthorizationTest$TestServerPrincipalBuilder": "User",
}
"""The classes of Kafka's tests that name a principal after its listener, with its type. EXTERNAL makes a client."""


def main() -> None:
    load_modules()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port_file = Path(sys.argv[1])
        port_file.with_suffix(".new").write_text(str(listener.getsockname()[1]))
        port_file.with_suffix(".new").rename(port_file)
        while True:
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    serve(client)
                finally:
                    sys.stderr.flush()
                    os._exit(0)
            client.close()


def load_modules() -> None:
    """Import the modules of the broker, so that forked processes have them."""
    for package in ("minibroker", "minibroker_protocol", "minibroker_storage"):
        folders = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folders, f"{package}."):
            if module.name.split(".")[1] not in _NOT_LOADED:
                with contextlib.suppress(ImportError):  # it needs an extra that is not installed
                    importlib.import_module(module.name)


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def serve(client: socket.socket) -> None:
    """Start the brokers that the first request describes, and answer requests until the connection ends."""
    with client.makefile("rw", encoding="utf-8") as lines:
        try:
            broker, ports = start(json.loads(lines.readline()))
        except Exception as error:  # noqa: BLE001 - the test gets it
            _answer(lines, {"error": f"{type(error).__name__}: {error}"})
            return
        _answer(lines, {"ports": ports})
        for line in lines:
            try:
                _answer(lines, answer(broker, json.loads(line)))
            except Exception as error:  # noqa: BLE001 - the test gets it
                _answer(lines, {"error": f"{type(error).__name__}: {error}"})
        broker.stop()


def _answer(lines: Any, value: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the test has ended
        lines.write(json.dumps(value) + "\n")
        lines.flush()


def start(cluster: dict[str, Any]) -> tuple[Broker, dict[str, dict[int, int]]]:
    """Start brokers with consecutive node ids; return them with their ports by listener and node id.

    All brokers have the configuration of the first one, but racks of their own.
    """
    configs = {int(node_id): config for node_id, config in cluster["configs"].items()}
    ids = sorted(configs)
    if ids != list(range(ids[0], ids[0] + len(ids))):
        raise ValueError(f"the node ids are not consecutive: {ids}")
    config = {**_NOT_IN_KAFKA, **configs[ids[0]], "node.id": str(ids[0])}
    controllers = config.get("controller.listener.names", "").split(",")
    listeners = [
        name
        for listener in config.get("listeners", "PLAINTEXT://localhost:0").split(",")
        if (name := listener.strip().partition("://")[0]) not in controllers
    ]
    if cluster["cluster_id"]:
        config["minibroker.cluster.id"] = cluster["cluster_id"]
    if cluster["emulate"]:
        config["minibroker.emulate"] = cluster["emulate"]
    config["advertised.listeners"] = ",".join(f"{name}://localhost:0" for name in listeners)
    warnings.simplefilter("ignore")
    build_principals(config, listeners)
    add_logins(config, listeners, cluster["jaas"])
    broker = Broker(
        listeners=",".join(f"{name}://localhost:0" for name in listeners),
        data_dir=_linked(cluster["data_dir"]),
        brokers=len(ids),
        racks=[configs[node_id].get("broker.rack") for node_id in ids],
        config={key: value for key, value in config.items() if key not in _NOT_IN_MINIBROKER},
    )
    broker.start()

    async def finalize() -> None:
        features = broker.services.core.features
        # Kafka's tests run with levels that their release does not have by default.
        levels = {
            name: min(level, features.supported[name].last)
            for name, level in cluster["features"].items()
            if name in features.supported
        }
        if any(features.level(name) != level for name, level in levels.items()):
            features.finalize(levels)
        if cluster["scram"]:
            broker.services.security.scram.alter(dict(map(_scram_credential, cluster["scram"])))

    broker.wait(finalize())
    ports = {
        name: {
            node_id: int(address.rpartition(":")[2])
            for node_id, address in zip(ids, broker.bootstrap_servers_of(name.upper()).split(","), strict=True)
        }
        for name in listeners
    }
    return broker, ports


def _linked(directory: str) -> str:
    """Make an empty directory a link to another one, which the tests cannot delete while the brokers write."""
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()
        path.symlink_to(tempfile.mkdtemp(prefix="own-tests-", dir=os.environ.get(SCRATCH)))
    return directory


def build_principals(config: dict[str, str], listeners: list[str]) -> None:
    """Have clients without a login the principals that a principal builder of Kafka's tests gives them by listener."""
    principals: dict[str, Principal] = {}
    for name in listeners:
        builder = config.get(
            f"listener.name.{name.lower()}.principal.builder.class", config.get("principal.builder.class", "")
        ).rpartition(".")[2]
        if builder in _SSL_PRINCIPALS:
            config["ssl.principal.mapping.rules"] = _SSL_PRINCIPALS[builder]
        type_of = _PRINCIPAL_BUILDERS.get(builder)
        if type_of is not None:
            principals[name.upper()] = Principal(type_of, "client" if name == "EXTERNAL" else name.lower())
    if not principals:
        return

    def make_session(*arguments: Any, **named: Any) -> Session:
        session = Session(*arguments, **named)
        session.principal = principals.get(session.listener, session.principal)
        return session

    setattr(connection, "Session", make_session)  # noqa: B010 - a class is replaced by a function


def _scram_credential(given: dict[str, Any]) -> tuple[tuple[str, str], ScramCredential]:
    salt, stored_key, server_key = (base64.b64decode(given[key]) for key in ("salt", "stored_key", "server_key"))
    mechanism = next(name for name, number in MECHANISM_NUMBERS.items() if number == given["mechanism"])
    return (mechanism, given["user"]), ScramCredential(salt, stored_key, server_key, given["iterations"])


def add_logins(config: dict[str, str], listeners: list[str], jaas: str) -> None:
    """Add the logins of a JAAS file to a configuration: the sections KafkaServer and LISTENER.KafkaServer."""
    for name in listeners:
        for section in (f"{name.lower()}.KafkaServer", "KafkaServer"):
            with contextlib.suppress(JaasError):
                logins = server_logins(f"KafkaServer {{ {section_of(jaas, section)} }};")
                for key, login in logins.items():
                    config.setdefault(f"listener.name.{name.lower()}.{key}", login)
                break


def answer(broker: Broker, request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request asks for, and return its answer."""
    match request["do"]:
        case "start":
            broker.brokers[request["node"]].start()
        case "stop":
            broker.brokers[request["node"]].stop()
        case "compact":
            broker.compact(request["topic"])
        case "topics":
            return {"topics": {name: topic.topic_id for name, topic in broker.topics().items()}}
        case "topic_config":
            return {"config": dict(broker.topics()[request["topic"]].configs)}
        case name:
            return broker.wait(_on_loop(_VIEWS[name], broker.services, request))
    return {}


async def _on_loop(view: Callable[[Services, dict[str, Any]], dict[str, Any]], *given: Any) -> dict[str, Any]:
    return view(*given)


def _partitions(services: Services, request: dict[str, Any]) -> dict[str, Any]:
    topic = services.core.topics.get(request["topic"])
    return {"partitions": [] if topic is None else [_describe(partition) for partition in topic.partitions]}


def _describe(partition: Partition) -> dict[str, Any]:
    leader = -1 if partition.leader is None else partition.leader.id
    return {"leader": leader, "epoch": partition.leader_epoch, "isr": list(partition.isr)}


def _log(services: Services, request: dict[str, Any]) -> dict[str, Any]:
    services.core.writes.commit()
    topic = services.core.topics.get(request["topic"])
    partition = None if topic is None else topic.partition(request["partition"])
    if partition is None:
        raise ValueError(f"there is no partition {request['topic']}-{request['partition']}")
    log = partition.log
    if request["do"] == "roll":
        log.roll(services.core.clock.now_ms())
    return {
        "directory": partition.directory,
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "stable": log.last_stable_offset,
        "producers": [
            {
                "id": producer_id,
                "epoch": entry.producer_epoch,
                "coordinator_epoch": entry.coordinator_epoch,
                "timestamp": entry.last_timestamp,
                "transaction_start": entry.current_txn_first_offset,
            }
            for producer_id, entry in log.producers.active.items()
        ],
    }


def _quota(services: Services, request: dict[str, Any]) -> dict[str, Any]:
    client: Any = SimpleNamespace(principal=SimpleNamespace(name=request["user"]))
    if services.quotas is None:
        return {"limit": _UNLIMITED}
    find_quota = services.quotas._find_quota  # pyright: ignore[reportPrivateUsage] - no request asks for it
    quota = find_quota(request["key"], client, request["client_id"])
    return {"limit": _UNLIMITED if quota is None else quota[1]}


def _acls(services: Services, request: dict[str, Any]) -> dict[str, Any]:
    authorizer = services.authorizer
    if authorizer is None:
        raise ValueError("there is no authorizer")
    acls = [
        AclBinding(
            ResourceType(type_),
            name,
            PatternType(pattern),
            principal,
            host,
            Operation(operation),
            PermissionType(permission),
        )
        for type_, name, pattern, principal, host, operation, permission in request.get("acls", ())
    ]
    if request["do"] == "add_acls":
        authorizer.add(acls)
    elif request["do"] == "remove_acls":
        authorizer.remove(acls)
    return {"acls": [list(acl) for acl in authorizer.find(AclFilter())]}


_UNLIMITED: Final = float((1 << 63) - 1)
_VIEWS: Final = {
    "partitions": _partitions,
    "log": _log,
    "roll": _log,
    "quota": _quota,
    "acls": _acls,
    "add_acls": _acls,
    "remove_acls": _acls,
}


if __name__ == "__main__":
    main()
