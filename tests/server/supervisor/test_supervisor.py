"""A host: what its workers are told, what it prints, when it ends and with which exit code."""

import asyncio
import os
import resource
import signal
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from aclgrad_server.admin.listener import MAX_CONNECTIONS
from aclgrad_server.edge.process import memory_limit
from aclgrad_server.exits import EXIT_DEVICE_LOST, EXIT_START, EXIT_UNDRAINED, EXIT_USAGE, StartError
from aclgrad_server.place import Place
from aclgrad_server.supervisor import supervisor as supervisor_module
from aclgrad_server.supervisor.supervisor import UNREADY_LIMIT_S
from aclgrad_server.supervisor.worker import State
from tests.server.fakes import Clock, settle, wait_until
from tests.server.supervisor.hosts import Host, hosting
from tools.authority import Authority, write_identities
from tools.serving import free_range

pytestmark = pytest.mark.usefixtures("fake_workers")


class Beats(Clock):
    """The supervisor's clock, which counts how often it looks."""

    looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return super().__call__()

    async def pass_in(self, host: Host, seconds: float) -> bool:
        """Returns, after looks of the host so much later, whether it has ended."""
        self.now_s += seconds
        end = self.looks + 3
        await wait_until(lambda: host.end.done() or self.looks >= end)
        return host.end.done()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Beats:
    clock = Beats()
    monkeypatch.setattr(supervisor_module, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(supervisor_module, "BEAT_INTERVAL_S", 0.001)
    return clock


async def test_orders_divide_what_the_host_has() -> None:
    """Memory between all workers; pool and streams between those on a card."""
    limits = {"memory_limit_bytes": 500 * 2**20, "pool_bytes": 3001, "streams": 5, "max_waiting_calls": 7}
    async with hosting(4, 2, 2, **limits, listen=("127.0.0.1:0", "unix:/run/x")) as host:
        told = [worker.orders.settings for worker in host.workers]
        addresses = host.supervisor.addresses
        tcp = addresses.shared[0]
        assert [each.device for each in told] == [(4,), (2,), (2,)]
        assert [each.memory_limit_bytes for each in told] == [-(-500 * 2**20 // 3)] * 3
        assert [each.pool_bytes for each in told] == [3001, 1501, 1501]
        assert [each.streams for each in told] == [5, 3, 3]
        assert [each.max_waiting_calls for each in told] == [7] * 3
        assert [each.listen for each in told] == [(tcp, *own) for own in addresses.own]
        assert [each.admin for each in told] == [f"unix:{worker.socket}" for worker in host.workers]
        ids = {worker.orders.place.host_id for worker in host.workers}
        (host_id,) = ids
        assert len(host_id) == 32
        assert [worker.orders.place for worker in host.workers] == [
            Place(index, 3, on_card, addresses.own, host_id=host_id, shared=addresses.shared)
            for index, on_card in enumerate((1, 2, 2))
        ]
    async with hosting(0) as other:
        assert other.workers[0].orders.place.host_id not in ids


async def test_orders_without_limits_divide_the_memory_of_the_machine_and_leave_the_pool_to_the_card() -> None:
    async with hosting(0, 0) as host:
        for worker in host.workers:
            settings = worker.orders.settings
            assert settings.memory_limit_bytes == -(-memory_limit(None) // 2)
            assert (settings.pool_bytes, settings.streams) == (None, 2)


async def test_open_files_do_for_those_who_read_pages_and_for_the_workers() -> None:
    """Without files the supervisor could ask no worker whether it lives, and would end them all."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        async with hosting(*range(3)):
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= MAX_CONNECTIONS + 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("setting", ["tls_key", "tls_certificate", "identities"])
async def test_a_file_that_everybody_may_write_to_ends_the_start(tmp_path: Path, setting: str) -> None:
    certificate, key = map(Path, Authority(tmp_path).pair("server"))
    identities = Path(write_identities(tmp_path / "identities.toml", {"trainer": {"token": "secret"}}))
    files = {"tls_certificate": certificate, "tls_key": key, "identities": identities}
    files[setting].chmod(0o646)
    with pytest.raises(StartError, match=f"{files[setting]} is not trusted: everybody may write to .*; chmod o-w"):
        async with hosting(**files):
            pass


async def test_sockets_of_workers_are_in_a_private_folder_that_ends_with_the_host() -> None:
    async with hosting() as host:
        folder = Path(host.workers[0].socket).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        held = host.supervisor.addresses.shared[0]
    assert not folder.exists()
    socket.create_server(("127.0.0.1", int(held.rpartition(":")[2]))).close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_every_worker(number: signal.Signals) -> None:
    async with hosting() as host:
        await host.signal(number)
        assert await host.exit_code() == 0
        assert [worker.stop_count for worker in host.workers] == [1, 1]


async def test_a_worker_that_was_cut_is_told_by_the_exit_code() -> None:
    async with hosting() as host:
        host.workers[1].was_cut = True
        await host.signal(signal.SIGTERM)
        assert await host.exit_code() == EXIT_UNDRAINED


async def test_a_second_signal_ends_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    async with hosting() as host:
        host.workers[0].may_stop.clear()
        await host.signal(signal.SIGTERM)
        assert not codes
        await host.signal(signal.SIGINT)
        assert codes == [128 + signal.SIGINT]
        assert [worker.signals for worker in host.workers] == [[signal.SIGKILL]] * 2
        assert not Path(host.workers[0].socket).parent.exists()
        host.workers[0].may_stop.set()


async def test_exit_codes_of_workers_are_known_also_where_sigchld_is_ignored() -> None:
    """As by a shell with `trap "" CHLD`."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with hosting():
            child = await asyncio.create_subprocess_exec("sh", "-c", "exit 7")
            assert await child.wait() == 7
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_host_all_of_whose_workers_are_given_up_ends_with_their_code(capfd: pytest.CaptureFixture[str]) -> None:
    async with hosting() as host:
        host.workers[1].give_up(EXIT_START)
        await settle()
        assert not host.end.done()
        host.workers[0].give_up(EXIT_USAGE)
        assert await host.exit_code() == EXIT_USAGE
        assert [worker.stop_count for worker in host.workers] == [1, 1]
    assert capfd.readouterr().out == ""


async def test_a_worker_that_nobody_keeps_any_more_ends_the_host(caplog: pytest.LogCaptureFixture) -> None:
    async with hosting() as host:
        host.workers[0].fail(MemoryError("none left"))
        assert await host.exit_code() == EXIT_START
        assert [worker.stop_count for worker in host.workers] == [1, 1]
        assert "none left" in caplog.text


UNREADY: dict[str, tuple[tuple[State, State] | None, tuple[State, State]]] = {
    "starting": (None, (State.STARTING, State.STARTING)),
    "paused": (None, (State.PAUSED, State.PAUSED)),
    "ready_before": ((State.STARTING, State.READY), (State.STARTING, State.PAUSED)),
    # Another process would find the same cards; and later ends count from then.
    "unfit_before": ((State.UNFIT, State.UNFIT), (State.STARTING, State.UNFIT)),
    "paused_beside_an_unfit_card": (None, (State.UNFIT, State.PAUSED)),
    "starting_beside_an_unfit_card": (None, (State.UNFIT, State.STARTING)),
}
"""Of two workers: the states that no time ends, and those that five minutes end."""


@pytest.mark.parametrize(("before", "states"), UNREADY.values(), ids=UNREADY)
async def test_five_minutes_without_a_ready_worker_end_the_host(
    clock: Beats,
    caplog: pytest.LogCaptureFixture,
    before: tuple[State, State] | None,
    states: tuple[State, State],
) -> None:
    """So that its container or service is started again."""
    async with hosting() as host:

        def enter(states: tuple[State, State]) -> None:
            for worker, state in zip(host.workers, states, strict=True):
                worker.enter(state, "a reason")

        if before is not None:
            enter(before)
            assert not await clock.pass_in(host, 1000)
        enter(states)
        assert not await clock.pass_in(host, UNREADY_LIMIT_S)
        await clock.pass_in(host, 1)
        assert await host.exit_code() == EXIT_DEVICE_LOST
        assert "no worker was ready for 300 s: ending with exit code 4" in caplog.text


async def test_addresses_are_printed_once_each(capfd: pytest.CaptureFixture[str]) -> None:
    async with hosting(0, 1, 2) as host:
        shared, own = host.supervisor.addresses.shared[0], [each[0] for each in host.supervisor.addresses.own]
        host.workers[1].enter(State.READY)
        assert capfd.readouterr().out == f"ready: {shared}\nworker 1: {own[1]}\n"
        host.workers[0].enter(State.UNFIT, "device 0 fails")
        host.workers[2].enter(State.READY)
        assert capfd.readouterr().out == f"worker 2: {own[2]}\n"
        for state in (State.STARTING, State.PAUSED, State.READY):
            host.workers[1].enter(state, "")
        assert capfd.readouterr().out == ""


async def test_a_unix_socket_is_announced_when_it_answers(capfd: pytest.CaptureFixture[str]) -> None:
    """Worker 0 alone has it."""
    async with hosting(listen=("unix:/run/x", "127.0.0.1:0")) as host:
        addresses = host.supervisor.addresses
        host.workers[1].enter(State.READY)
        assert capfd.readouterr().out == f"worker 1: {' '.join(addresses.own[1])}\n"
        host.workers[0].enter(State.READY)
        lines = capfd.readouterr().out.splitlines()
        assert lines == [f"ready: {' '.join(addresses.shared)}", f"worker 0: {' '.join(addresses.own[0])}"]


async def test_nobody_has_to_read_the_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setattr(supervisor_module, "_STDOUT", writer)
    async with hosting(admin="127.0.0.1:0") as host:
        for worker in host.workers:
            worker.enter(State.READY)
    os.close(writer)


def test_memory_has_to_do_for_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is taken."""

    def check(setting: int | None, processes: int) -> None:
        raise StartError(f"too little for {processes}")

    monkeypatch.setattr(supervisor_module, "check_memory", check)
    with pytest.raises(StartError, match="too little for 3"):
        Host((0, 1, 2))


@pytest.mark.parametrize(("name", "told"), [("nowhere", "need a folder"), ("x" * 100, "is too long")])
def test_host_without_a_folder_for_its_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    if told == "is too long":
        (tmp_path / name).mkdir()
    monkeypatch.setattr(supervisor_module.tempfile, "tempdir", str(tmp_path / name))
    port = free_range(3)
    for _ in range(2):  # the port is free again
        with pytest.raises(StartError, match=rf"{told}.*set TMPDIR"):
            Host((0, 1), listen=(f"127.0.0.1:{port}",))
    assert list(tmp_path.glob("*/*")) == []


async def test_admin_address_that_is_taken_ends_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        host = Host((0, 1), admin=address)
        with pytest.raises(StartError, match=f"cannot listen on {address}: .*--admin"):
            await host.exit_code()
    assert not Path(host.workers[0].socket).parent.exists()
    assert all(each.fileno() == -1 for each in host.supervisor.addresses.holders)
