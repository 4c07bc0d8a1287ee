"""Servers of several files, each started once, and names of objects for one test alone."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aclgrad.wire import service
from tests.e2e.admin_pages import ask
from tests.e2e.fault_plans import assert_no_misuse, write_config
from tests.e2e.shared_objects import Objects, own_objects, sharing_server
from tools.raw_calls import assert_idle
from tools.serving import Server

# The device is strict in either case; with host pointers it computes on what the server has received.
DEVICES = [pytest.param(False, id="copies"), pytest.param(True, id="host_pointers", marks=pytest.mark.slow)]

CLAIMS = ("active_rpcs", "running_calls", "waiting_calls", "memory_waiting_calls", "claimed_bytes", "reply_bytes")
HELD = re.compile(rf"^aclgrad_(?:{'|'.join(CLAIMS)})\b.* (?!0\.0$).+", re.MULTILINE)
"""Metrics of what calls hold, unless it is nothing."""


@pytest.fixture(autouse=True)
def nothing_stays_claimed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test after which a server of its fixtures still holds calls, slots or memory for clients."""
    yield
    servers = [each for each in request.node.funcargs.values() if isinstance(each, Server) and each.admin is not None]
    end = time.monotonic() + 30
    while held := [line for server in servers for line in held_by(server)]:
        assert time.monotonic() < end, f"{request.node.name} leaves {held}"
        time.sleep(0.01)


def held_by(server: Server) -> list[str]:
    try:
        return HELD.findall(ask(server.admin, "/metrics")[1])
    except ConnectionError:
        return []  # it has ended


@pytest.fixture(scope="session", params=DEVICES)
def shared_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Takes shared memory, on a strict device, and logs every call."""
    folder: Path = tmp_path_factory.mktemp("shared")
    config = write_config(folder, host_pointers=request.param)
    with sharing_server(folder, "--acl-config", config, "--log-level", "debug") as server:
        yield server
        assert_idle(server)
    assert_no_misuse(folder)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    """Names for this test alone, which clients use as well."""
    with own_objects() as objects:
        monkeypatch.setattr(service, "SHARED_PREFIX", objects.prefix)
        yield objects
