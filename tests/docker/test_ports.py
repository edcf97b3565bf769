"""Ports of containers that accept connections and send nothing, except to other processes of the cluster."""

import asyncio
import logging
import socket

import pytest

from minibroker.server.remote import holder, link
from minibroker.server.remote.link import Ask, LinkError, Register
from minibroker_container.meeting import Registrar
from minibroker_container.ports import open_ports
from tests.kafka.real_kafka import free_ports

ANY = "127.0.0.1:0"


async def ask(port: int, message: link.Message) -> link.Message:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(link.GREETING + link.encode(message))
    try:
        return await link.read_message(reader)
    finally:
        writer.close()


async def test_a_port_answers_the_other_processes_and_stays_silent_to_others() -> None:
    registrar = Registrar(7)
    async with open_ports([ANY], registrar.serve) as (port,):
        assert await ask(port, Ask()) == registrar.claim
        with pytest.raises(LinkError, match=r"^process 7 does not hold the logs$"):
            await ask(port, Register(1, None, {}, "i"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x00\x00\x00\x05other\nbytes")
        await writer.drain()
        assert not reader.at_eof()
        for huge in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x02[]"):
            hostile, hostile_writer = await asyncio.open_connection("127.0.0.1", port)
            hostile_writer.write(link.GREETING + huge)
            with pytest.raises(LinkError, match="message of the link"):
                await link.read_message(hostile)
            hostile_writer.close()
    assert await reader.read() == b""
    writer.close()


async def test_an_address_of_another_form_is_refused() -> None:
    for address in ("nothing", "127.0.0.1:x"):
        with pytest.raises(ValueError, match=r"^--silent-port: "):
            await open_ports([address]).__aenter__()


async def test_the_oldest_connection_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "_MAX_SILENT_CONNECTIONS", 1)
    async with open_ports([ANY]) as (port,):
        first, first_writer = await asyncio.open_connection("127.0.0.1", port)
        second, second_writer = await asyncio.open_connection("127.0.0.1", port)
        assert await first.read() == b""
        assert not second.at_eof()
        for writer in (first_writer, second_writer):
            writer.close()


async def test_a_zookeeper_is_loaded_with_its_first_client(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    async with open_ports([], zookeeper=f"127.0.0.1:{port}"):
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"ruok")
            assert await reader.read() == b"imok"
            writer.close()
        async with open_ports([], zookeeper=f"127.0.0.1:{port}"):
            assert f"--zookeeper 127.0.0.1:{port} cannot be opened" in caplog.text
    with pytest.raises(ValueError, match=r"^--zookeeper: "):
        await open_ports([], zookeeper="nothing").__aenter__()


async def test_an_address_in_use_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with caplog.at_level(logging.WARNING):
            async with open_ports([address]) as ports:
                assert ports == []
    assert f"--silent-port {address} cannot be opened" in caplog.text
