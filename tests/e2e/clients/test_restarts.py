"""Both clients while a server process is down or restarts."""

import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await
from tools.serving import Server

pytestmark = pytest.mark.slow

GRAD = np.ones((1, 1, 1), np.float32)
DOWN_S = 6.0
"""Long enough for the delays between attempts to connect to have reached their longest."""


@pytest.fixture
def address() -> str:
    """An address at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.long
async def test_a_call_made_after_the_server_is_ready_succeeds(connect: Callable[..., Any], address: str) -> None:
    client = connect(address, retries=0)
    with Server(listen=[address]):
        await maybe_await(client.list_operators())
    end = time.monotonic() + DOWN_S
    while time.monotonic() < end:
        # The time may be over amid a look for the server.
        with pytest.raises((aclgrad.ServerUnreachableError, aclgrad.DeadlinePassedError)):
            await maybe_await(client.list_operators(timeout_s=0.5))
    with Server(listen=[address]):
        assert (await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)))).sum() == 1


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
async def test_calls_survive_a_restart(connect: Callable[..., Any], address: str, end: signal.Signals) -> None:
    client = connect(address, connect_timeout_s=60)
    restarted = threading.Event()
    with ExitStack() as stack:
        first = stack.enter_context(Server(listen=[address]))
        await maybe_await(client.list_operators())

        def restart() -> None:
            first.send(end)
            first.exit_code()
            stack.enter_context(Server(listen=[address]))
            restarted.set()

        thread = threading.Thread(target=restart)
        thread.start()
        try:
            while not restarted.is_set():
                assert (await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)))).sum() == 1
        finally:
            thread.join()
