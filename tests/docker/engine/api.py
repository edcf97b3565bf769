"""A small Docker Engine API on a Unix socket, for clients that start containers: Testcontainers and `docker` itself.

It serves what those need, for one image, whose containers are boxes (`tests.docker.boxes`). `docker exec` answers when
its command has ended. There is one network, and no storage of volumes.
"""

import asyncio
import contextlib
import json
import signal
import struct
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, Self

from aiohttp import web

from tests.docker.boxes import Image
from tests.docker.engine.containers import IMAGE_ID, NETWORK, Container, Execution, NoContainerError, shown_image
from tests.patience import PATIENCE_S

_VERSION: Final = "1.47"
_LOOK_S: Final = 0.02
_STREAMS: Final = {"stdout": 1, "stderr": 2}


class Engine:
    """The engine, in a thread of its own. Use it in a `with` block, which removes its containers.

    Args:
        image: what all containers run.
        names: the image's names, each with its tag; others are unknown here and in every registry.
        path: where the socket is made.
    """

    def __init__(self, image: Image, names: Iterable[str], path: Path) -> None:
        self.path = path
        self.containers: dict[str, Container] = {}
        self.removed: list[str] = []
        """The names of containers that a client has removed."""
        self._image, self._names = image, tuple(names)
        self._executions: dict[str, Execution] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._end = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        for container in self.containers.values():
            container.remove()
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    async def _serve(self) -> None:
        app = web.Application(middlewares=[_answer_errors], client_max_size=1 << 30)
        for method, path, handler in self._routes():
            for prefix in ("", r"/v{version:[\d.]+}"):
                app.router.add_route(method, prefix + path, handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.UnixSite(runner, str(self.path)).start()
        self._ready.set()
        await self._end.wait()
        await runner.cleanup()

    def _routes(self) -> list[tuple[str, str, Callable[[web.Request], Awaitable[web.StreamResponse]]]]:
        container, name = "/containers/{id}", "{name:.+}"
        return [
            ("*", "/_ping", self._ping),
            ("GET", "/version", self._version),
            ("GET", "/info", self._info),
            ("GET", "/images/json", self._list_images),
            ("GET", f"/images/{name}/json", self._inspect_image),
            ("POST", "/images/create", self._pull),
            ("GET", "/networks", self._networks),
            ("POST", "/{kind:networks|volumes|containers|images}/prune", self._prune),
            ("GET", "/networks/{name}", self._network),
            ("GET", "/containers/json", self._list),
            ("POST", "/containers/create", self._create),
            ("GET", f"{container}/json", self._inspect),
            ("POST", f"{container}/start", self._start),
            ("POST", f"{container}/stop", self._stop),
            ("POST", f"{container}/kill", self._kill),
            ("POST", f"{container}/wait", self._wait),
            ("DELETE", container, self._remove),
            ("GET", f"{container}/logs", self._logs),
            ("PUT", f"{container}/archive", self._unpack),
            ("GET", f"{container}/archive", self._pack),
            ("POST", f"{container}/exec", self._create_exec),
            ("POST", "/exec/{id}/start", self._start_exec),
            ("GET", "/exec/{id}/json", self._inspect_exec),
        ]

    async def _ping(self, request: web.Request) -> web.Response:
        headers = {"Api-Version": _VERSION, "Ostype": "linux", "Builder-Version": "1"}
        return web.Response(text="" if request.method == "HEAD" else "OK", headers=headers)

    async def _version(self, _: web.Request) -> web.Response:
        here = {"Version": "27.0.0", "ApiVersion": _VERSION, "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}
        return web.json_response({**here, "Components": [], "KernelVersion": ""})

    async def _info(self, _: web.Request) -> web.Response:
        here = {"ID": "boxes", "Name": "boxes", "ServerVersion": "27.0.0", "OSType": "linux", "Architecture": "x86_64"}
        more = {"OperatingSystem": "boxes", "MemTotal": 1 << 32, "NCPU": 2, "Driver": "overlay2", "Labels": []}
        return web.json_response({**here, **more, "IndexServerAddress": "", "Plugins": {}, "RegistryConfig": {}})

    def _known(self, name: str) -> str:
        """Return a name of the image. NoContainerError for others."""
        plain = name.removeprefix("docker.io/").removeprefix("library/")
        if plain not in self._names and plain != IMAGE_ID:
            raise NoContainerError(f"No such image: {name}")
        return plain

    async def _list_images(self, _: web.Request) -> web.Response:
        entry = {"Id": IMAGE_ID, "RepoTags": list(self._names), "Created": 0, "Size": 0, "Labels": {}}
        return web.json_response([entry])

    async def _inspect_image(self, request: web.Request) -> web.Response:
        return web.json_response(shown_image(self._image, self._known(request.match_info["name"])))

    async def _pull(self, request: web.Request) -> web.Response:
        name = request.query["fromImage"]
        tag = request.query.get("tag")
        self._known(f"{name}:{tag}" if tag else name)
        return web.json_response({"status": "Status: Image is up to date"})

    async def _networks(self, _: web.Request) -> web.Response:
        return web.json_response([NETWORK])

    async def _network(self, request: web.Request) -> web.Response:
        if request.match_info["name"] not in {NETWORK["Name"], NETWORK["Id"]}:
            raise NoContainerError(f"network {request.match_info['name']} not found")
        return web.json_response(NETWORK)

    async def _prune(self, request: web.Request) -> web.Response:
        kind = request.match_info["kind"].capitalize()
        filters = json.loads(request.query.get("filters") or "{}")
        unused = [each for each in self.containers.values() if each.state == "exited" and _matches(each, filters)]
        gone = [await self._discard(each) for each in unused] if kind == "Containers" else []
        return web.json_response({f"{kind}Deleted": gone, "SpaceReclaimed": 0})

    def _container(self, request: web.Request) -> Container:
        key = request.match_info["id"].removeprefix("/")
        for container in self.containers.values():
            if key == container.name or (len(key) >= 12 and container.id.startswith(key)):
                return container
        raise NoContainerError(f"No such container: {key}")

    async def _list(self, request: web.Request) -> web.Response:
        filters = json.loads(request.query.get("filters") or "{}")
        found = [each for each in self.containers.values() if _matches(each, filters)]
        everything = request.query.get("all") in {"1", "true", "True"}
        return web.json_response([each.listed() for each in found if everything or each.state == "running"])

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._known(body["Image"])
        name = request.query.get("name") or f"box-{uuid.uuid4().hex[:8]}"
        container = Container(self._image, name, body)
        self.containers[container.id] = container
        return web.json_response({"Id": container.id, "Warnings": []}, status=201)

    async def _inspect(self, request: web.Request) -> web.Response:
        return web.json_response(self._container(request).shown())

    async def _start(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self._container(request).start)
        return web.Response(status=204)

    async def _stop(self, request: web.Request) -> web.Response:
        seconds = float(request.query.get("t") or 10)
        await asyncio.to_thread(self._container(request).stop, seconds)
        return web.Response(status=204)

    async def _kill(self, request: web.Request) -> web.Response:
        given = request.query.get("signal") or "KILL"
        number = int(given) if given.isdigit() else signal.Signals[f"SIG{given.removeprefix('SIG')}"]
        self._container(request).kill(number)
        return web.Response(status=204)

    async def _wait(self, request: web.Request) -> web.Response:
        status = await asyncio.to_thread(self._container(request).box.process.wait)
        return web.json_response({"StatusCode": status})

    async def _remove(self, request: web.Request) -> web.Response:
        container = self._container(request)
        if container.state == "running" and request.query.get("force") not in {"1", "true", "True"}:
            return web.json_response({"message": f"container {container.name} is running"}, status=409)
        await self._discard(container)
        return web.Response(status=204)

    async def _discard(self, container: Container) -> str:
        """Remove a container, and return its id."""
        del self.containers[container.id]
        self.removed.append(container.name)
        await asyncio.to_thread(container.remove)
        return container.id

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        container = self._container(request)
        response = web.StreamResponse(headers={"Content-Type": "application/vnd.docker.multiplexed-stream"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # a client that has seen its line closes the connection
            await self._send_logs(request, container, response)
        return response

    async def _send_logs(self, request: web.Request, container: Container, response: web.StreamResponse) -> None:
        names = [name for name in _STREAMS if request.query.get(name) in {"1", "true", "True"}]
        follow = request.query.get("follow") in {"1", "true", "True"}
        places = dict.fromkeys(names, 0)
        goes_on = True
        while goes_on and container.state != "created":
            goes_on = follow and container.status is None
            for name in names:
                with contextlib.suppress(FileNotFoundError), container.box.log(name).open("rb") as log:
                    log.seek(places[name])
                    data = log.read()
                    places[name] += len(data)
                    if data:
                        await response.write(_frame(name, data))
            if goes_on:
                await asyncio.sleep(_LOOK_S)
        await response.write_eof()

    async def _unpack(self, request: web.Request) -> web.Response:
        archive = await request.read()
        await asyncio.to_thread(self._container(request).unpack, request.query["path"], archive)
        return web.Response()

    async def _pack(self, request: web.Request) -> web.Response:
        archive, described = await asyncio.to_thread(self._container(request).pack, request.query["path"])
        headers = {"Content-Type": "application/x-tar", "X-Docker-Container-Path-Stat": described}
        return web.Response(body=archive, headers=headers)

    async def _create_exec(self, request: web.Request) -> web.Response:
        execution = Execution(self._container(request), await request.json())
        self._executions[execution.id] = execution
        return web.json_response({"Id": execution.id}, status=201)

    async def _start_exec(self, request: web.Request) -> web.StreamResponse:
        """Run the command, and take the connection over for its output, which ends with the connection."""
        execution = self._execution(request)
        await request.read()
        transport = request.transport
        assert transport is not None
        kind = "application/vnd.docker." + ("raw-stream" if execution.has_terminal else "multiplexed-stream")
        upgrade = request.headers.get("Upgrade", "").lower() == "tcp"
        status = "101 UPGRADED" if upgrade else "200 OK"
        connection = "Connection: Upgrade\r\nUpgrade: tcp" if upgrade else "Connection: close"
        transport.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{connection}\r\n\r\n".encode())
        outputs = await asyncio.to_thread(execution.run)
        for name, data in zip(_STREAMS, outputs, strict=True):
            if data:
                transport.write(data if execution.has_terminal else _frame(name, data))
        transport.close()
        return web.Response()

    async def _inspect_exec(self, request: web.Request) -> web.Response:
        return web.json_response(self._execution(request).shown())

    def _execution(self, request: web.Request) -> Execution:
        try:
            return self._executions[request.match_info["id"]]
        except KeyError:
            raise NoContainerError(f"No such exec instance: {request.match_info['id']}") from None


@web.middleware
async def _answer_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Give every error the body that clients of the API expect."""
    try:
        return await handler(request)
    except NoContainerError as error:
        return web.json_response({"message": str(error)}, status=404)
    except web.HTTPException as error:
        return web.json_response({"message": f"{request.method} {request.path}: {error.reason}"}, status=error.status)


def _frame(stream: str, data: bytes) -> bytes:
    return struct.pack(">BxxxI", _STREAMS[stream], len(data)) + data


def _matches(container: Container, filters: dict[str, Any]) -> bool:
    """Whether a container passes the filters of `GET /containers/json`."""
    labels = container.request.get("Labels") or {}
    pairs = {*labels, *(f"{name}={value}" for name, value in labels.items())}
    names = [each.strip("^/$") for each in filters.get("name", ())]
    return set(filters.get("label", ())) <= pairs and (not names or container.name in names)
