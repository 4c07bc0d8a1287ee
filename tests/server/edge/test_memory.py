"""The memory that the process may use, under both versions of control groups, and what happens as it runs out."""

import asyncio
import errno
import mmap
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aclgrad.errors import ServerBusyError
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.edge import memory as memory_module
from aclgrad_server.edge.memory import CUT_COUNT, INTERVAL_S, MemoryWatch, resident_bytes
from aclgrad_server.edge.process import check_memory, memory_limit
from aclgrad_server.exits import StartError
from aclgrad_server.liveness import BackgroundTasks, Heartbeat
from tests import memory_trees
from tests.server.fakes import FakeContext, new_calls, settle, wait_until


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_too_little_is_refused_with_both_figures(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "67108864\n"})
    with pytest.raises(StartError, match=r"64 MiB is less than the 128 MiB .*; give the container, the service"):
        check_memory(None, root=tmp_path)
    told = r"100 MiB is less than the 128 MiB that the server needs; raise --memory-limit-bytes \(ACLGRAD"
    with pytest.raises(StartError, match=told):
        check_memory(100 * 2**20)


def test_memory_that_would_do_for_fewer_workers(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{300 * 2**20}\n"})
    check_memory(None, 2, tmp_path)
    told = r"300 MiB is less than the 384 MiB that 3 workers need; give the container, .* more, or give fewer --workers"
    with pytest.raises(StartError, match=told):
        check_memory(None, 3, tmp_path)
    with pytest.raises(StartError, match="or the machine more, or give fewer --workers"):
        check_memory(None, memory_trees.MACHINE_BYTES // 2**27 + 1, tmp_path / "nothing")


@pytest.mark.parametrize("files", [*memory_trees.UNLIMITED.values(), {}], ids=[*memory_trees.UNLIMITED, "nothing"])
def test_without_a_limit_it_is_the_machine(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    check_memory(None, root=tmp_path)
    assert memory_limit(None, tmp_path) == memory_limit(2**62, tmp_path) == memory_trees.MACHINE_BYTES


@pytest.mark.parametrize("files", memory_trees.LIMITED.values(), ids=memory_trees.LIMITED)
def test_smallest_limit_counts(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    check_memory(None, root=tmp_path)
    limit = memory_trees.LIMIT_BYTES
    assert memory_limit(None, tmp_path) == memory_limit(limit + 1, tmp_path) == limit
    assert memory_limit(limit - 1, tmp_path) == limit - 1


def test_memory_is_read_without_a_free_file() -> None:
    resident_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        assert resident_bytes() > 2**20
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_memory_that_is_touched_is_resident() -> None:
    before = resident_bytes()
    # Memory of its own: the allocator may have kept some that is resident already.
    with mmap.mmap(-1, 2**26) as block:
        block.write(b"x" * 2**26)
        assert resident_bytes() > before + 2**25


class Memory:
    """A share of the memory that is used, and trims that take as long as they are told to."""

    def __init__(self) -> None:
        self.used = 0.0
        self.trims = self.looks = 0
        self.may_end: asyncio.Event | None = asyncio.Event()
        self.may_end.set()
        self.calls = new_calls()
        self.error: OSError | None = None
        self.watch = MemoryWatch(1000, self.trim, self.calls, self._used_bytes)

        self.heartbeat = Heartbeat()

    async def trim(self) -> None:
        self.trims += 1
        await self.may_end.wait()

    async def is_looked_at(self, times: int) -> None:
        """Returns when the watch has looked so often."""
        end = self.looks + times
        await wait_until(lambda: self.looks >= end)

    def _used_bytes(self) -> int:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return round(self.used * 1000)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        tasks = BackgroundTasks(self.heartbeat)
        self.watch.start(tasks)
        yield
        await tasks.stop()


async def begin_silent(calls: OpenCalls, count: int) -> list["asyncio.Task[None]"]:
    """Returns calls whose messages do not come."""

    async def receive() -> None:
        await calls.begin("Method", FakeContext(is_silent=True)).read()

    tasks = [asyncio.ensure_future(receive()) for _ in range(count)]
    await settle()
    return tasks


async def reads(calls: OpenCalls) -> bool:
    """Returns whether the message of a new call is received."""
    context = FakeContext([b"message"])
    task = asyncio.ensure_future(calls.begin("Method", context).read())
    await settle()
    task.cancel()
    return context.read_count > 0


async def test_above_the_soft_limit_reads_stop_and_then_the_oldest_calls_are_cut() -> None:
    memory = Memory()
    tasks = await begin_silent(memory.calls, CUT_COUNT + 2)
    memory.used = 0.84
    memory.watch.look()
    memory.watch.look()
    assert await reads(memory.calls)
    memory.used = 0.86
    memory.watch.look()
    await settle()
    assert not await reads(memory.calls)
    assert not any(task.done() for task in tasks)
    assert (memory.watch.used_bytes, memory.watch.limit_bytes, memory.watch.pressure) == (860, 1000, 1)
    await asyncio.sleep(INTERVAL_S)
    memory.watch.look()
    await settle()
    assert [task.cancelled() for task in tasks] == [True] * CUT_COUNT + [False] * 2
    assert memory.calls.memory_cuts == CUT_COUNT
    memory.calls.admit(memory.calls.begin("Method", FakeContext()))
    memory.used = 0.5
    memory.watch.look()
    assert await reads(memory.calls)
    for task in tasks:
        task.cancel()


async def test_above_the_hard_limit_new_calls_are_refused() -> None:
    memory = Memory()
    memory.used = 0.96
    memory.watch.look()
    with pytest.raises(ServerBusyError, match="short of memory"):
        memory.calls.admit(memory.calls.begin("Method", FakeContext()))
    assert (memory.watch.pressure, memory.calls.refusals["memory"]) == (2, 1)
    memory.used = 0.94
    memory.watch.look()
    memory.calls.admit(memory.calls.begin("Method", FakeContext()))


@pytest.mark.parametrize("fails", [False, True], ids=["long", "failing"])
async def test_memory_is_watched_while_a_trim_takes_its_time_or_fails(
    caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    memory = Memory()
    memory.used = 0.86
    memory.may_end = None if fails else asyncio.Event()
    async with memory.watched():
        await wait_until(lambda: memory.trims == 1 + fails)
        memory.used = 0.96
        await wait_until(lambda: memory.watch.pressure == 2)
        assert fails or memory.trims == 1
    assert ("'memory trim' failed" in caplog.text) is fails
    assert memory.heartbeat.failure() is None


async def test_look_that_fails_keeps_the_last_value_and_the_next_one_counts(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever waits for memory waits on, and is let in when there is some again."""
    memory = Memory()
    memory.used = 0.86
    async with memory.watched():
        await wait_until(lambda: memory.watch.pressure == 1)
        memory.error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        await wait_until(lambda: "'memory watch' failed" in caplog.text)
        assert (memory.watch.used_bytes, memory.watch.pressure) == (860, 1)
        assert not await reads(memory.calls)
        memory.used, memory.error = 0.5, None
        await wait_until(lambda: memory.watch.pressure == 0)
        assert await reads(memory.calls)
    assert memory.heartbeat.failure() is None


async def test_memory_goes_back_once_after_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "INTERVAL_S", 0.002)
    monkeypatch.setattr(memory_module, "IDLE_TRIM_S", 0.001)
    memory = Memory()
    async with memory.watched():
        for round_ in range(2):
            await memory.is_looked_at(5)
            assert memory.trims == round_
            context = FakeContext()
            memory.calls.begin("Method", context)
            await memory.is_looked_at(5)
            assert memory.trims == round_, "a call is there"
            context.end()
            await wait_until(lambda expected=round_ + 1: memory.trims == expected)
