"""What a server does before it has a device."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from aclgrad_server.devices.opening import VISIBLE
from aclgrad_server.exits import StartError
from aclgrad_server.server import Server
from aclgrad_server.server_view import ServerView
from aclgrad_server.settings import Settings

LIMIT_S = 60.0


async def test_name_server_that_does_not_answer_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ServerView(Settings(listen=("host.invalid:0",), insecure=True, backend="/nowhere/libascendcl.so"))
    asked, may_answer, was_in_time = threading.Event(), threading.Event(), []

    def look_up(*_: Any, **__: Any) -> list[Any]:
        asked.set()
        was_in_time.append(may_answer.wait(LIMIT_S))
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setenv(VISIBLE, "0")
    server = Server(state, lambda: None)
    starting = asyncio.ensure_future(server.start())
    while not asked.is_set():
        await asyncio.sleep(0.001)
    may_answer.set()
    with pytest.raises(StartError):
        await starting
    assert was_in_time == [True]
    await server.stop()
