"""One server for the whole run, and every client test on both clients."""

import gc
import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import aclgrad
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

# What takes long on a busy machine is no defect.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A shell without job control starts programs that ignore Ctrl-C, and so do their children. These inherit no handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Both ends of a test's connections are in one process, and a user's shell allows it 1,024 files.
_SOFT, _HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(_SOFT, min(_HARD, 8192)), _HARD))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Does not import the files without tests that run alone to find out that they have none."""
    if config.option.markexpr != "alone" or not collection_path.name.startswith("test_"):
        return None
    return "mark.alone" not in collection_path.read_text() or None


def pytest_collection_finish() -> None:
    """What collecting made stays to the end, so the garbage collections of tests need not look at it."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ends a run with an error if all of its tests were skipped: it has proved nothing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or session.config.option.collectonly or session.exitstatus != pytest.ExitCode.OK:
        return
    if not reporter.stats.get("passed"):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(params=[aclgrad.Client, aclgrad.AsyncClient], ids=["sync", "async"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """Makes clients, all of one kind, and closes them."""
    clients: list[AnyClient] = []

    def connect(target: str, **options: Any) -> AnyClient:
        clients.append(request.param(target, **options))
        return clients[-1]

    yield connect
    for client in clients:
        await maybe_await(client.close())


@pytest.fixture
def client(connect: Callable[..., AnyClient], server: Server) -> AnyClient:
    """A client of the server, of either kind: `await maybe_await(client.method(...))` calls both."""
    return connect(server.address)
