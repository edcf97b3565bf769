"""Ports of containers: silent ones, and those that pass connections on to the container with the broker."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator

import pytest

from minibroker_container import ports as container_ports
from minibroker_container.ports import Follower, LinkPort, SilentPorts, answers, open_ports


@contextlib.asynccontextmanager
async def echo() -> AsyncGenerator[int]:
    """A listener that sends back what it receives, in capitals."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data.upper())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def followed(*names: str) -> AsyncGenerator[tuple[LinkPort, Follower]]:
    """A lead with the listener INSIDE, which is `echo`, and a follower with these listeners."""
    async with echo() as port:
        link = LinkPort("127.0.0.1:0", {"INSIDE": ("127.0.0.1", port)})
        async with open_ports(link):
            follower = Follower(("127.0.0.1", link.ports[0]), [(name, "127.0.0.1", 0) for name in names])
            async with open_ports(follower):
                yield link, follower


async def test_what_a_client_sends_to_a_follower_reaches_the_listener_of_that_name() -> None:
    async with followed("INSIDE", "OTHER") as (_, follower):
        reader, writer = await asyncio.open_connection("127.0.0.1", follower.ports[0])
        for text in (b"one", b"\x00\x01two\n"):
            writer.write(text)
            assert await reader.readexactly(len(text)) == text.upper()
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", follower.ports[1])
        assert await reader.read() == b""  # the broker has no such listener
        writer.close()


async def test_connections_end_when_either_side_closes() -> None:
    async with followed("INSIDE") as (link, follower):
        reader, writer = await asyncio.open_connection("127.0.0.1", follower.ports[0])
        writer.write(b"one")
        assert await reader.readexactly(3) == b"ONE"
        link.close()
        assert await reader.read() == b""
        writer.close()


async def test_a_follower_without_a_lead_closes_each_connection() -> None:
    async with followed("INSIDE") as (link, follower):
        link.close()  # nobody listens there any more
        reader, writer = await asyncio.open_connection("127.0.0.1", follower.ports[0])
        assert await reader.read() == b""
        writer.close()


async def test_a_link_answers_followers_and_stays_silent_to_others() -> None:
    async with followed() as (link, _):
        address = ("127.0.0.1", link.ports[0])
        assert await asyncio.to_thread(answers, address, 60.0)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"\x00\x00\x00\x05other\nbytes")
        await writer.drain()
        assert not reader.at_eof()
        writer.close()
    assert not await asyncio.to_thread(answers, address, 0.0)


@pytest.mark.parametrize("address", ["nothing", "127.0.0.1:x"])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"^--link: "):
        LinkPort(address, {})
    with pytest.raises(ValueError, match=r"^--silent-port: "):
        SilentPorts([address])


async def test_a_silent_port_accepts_and_keeps_connections_until_it_is_closed() -> None:
    ports = SilentPorts(["127.0.0.1:0"])
    await ports.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", ports.ports[0])
    writer.write(b"anything")
    await writer.drain()
    assert not reader.at_eof()
    ports.close()
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_the_oldest_connection_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_ports, "MAX_CONNECTIONS", 1)
    ports = SilentPorts(["127.0.0.1:0"])
    async with open_ports(ports):
        first, first_writer = await asyncio.open_connection("127.0.0.1", ports.ports[0])
        second, second_writer = await asyncio.open_connection("127.0.0.1", ports.ports[0])
        assert await first.read() == b""
        assert not second.at_eof()
        for writer in (first_writer, second_writer):
            writer.close()


async def test_an_address_in_use_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ports = SilentPorts([address])
        with caplog.at_level(logging.WARNING):
            await ports.open()
    assert ports.ports == []
    assert f"--silent-port {address} cannot be opened" in caplog.text
