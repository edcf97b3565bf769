"""Ports that accept connections and say nothing."""

import asyncio
import logging
import socket

import pytest

from minibroker.server import silent
from minibroker.server.silent import SilentPorts


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
    monkeypatch.setattr(silent, "MOST_CONNECTIONS", 1)
    ports = SilentPorts(["127.0.0.1:0"])
    await ports.open()
    first, first_writer = await asyncio.open_connection("127.0.0.1", ports.ports[0])
    second, second_writer = await asyncio.open_connection("127.0.0.1", ports.ports[0])
    assert await first.read() == b""
    assert not second.at_eof()
    for writer in (first_writer, second_writer):
        writer.close()
    ports.close()


async def test_an_address_in_use_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ports = SilentPorts([address])
        with caplog.at_level(logging.WARNING):
            await ports.open()
    assert ports.ports == []
    assert f"--silent-port {address} cannot be opened" in caplog.text


def test_an_address_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="--silent-port"):
        SilentPorts(["nothing"])
