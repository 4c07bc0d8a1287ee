"""A device of the host library: what becomes of work whose caller has gone."""

import asyncio
import gc
import json
import os
import sys
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aclgrad.errors import DeadlinePassedError, DeviceLostError, InvalidFieldError, LimitExceededError
from aclgrad.products import Product
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import COPY_THREADS, Content, Device, GroupWork
from aclgrad_server.devices.opening import VISIBLE, open_device
from aclgrad_server.devices.plan import Limits, StepPlan, plan_call
from aclgrad_server.settings import Settings
from tests.native.shims import without
from tests.server.fakes import LATER, settle, wait_until
from tests.server.sent import NO_LIMIT, contents_of, pooling_plan, tensor

SIZE = 2**20
HANG_TIMEOUT_S = 0.5
KERNEL_S = 1.5
"""Of one kernel, so that work behind it waits for longer than until a hung kernel would be given up."""
SLOW_S = 0.4
LATE_S = 0.1
GRADIENT = memoryview(bytes(4))


class Opened(NamedTuple):
    device: Device
    losses: list[DeviceLostError]


Open = Callable[..., Awaitable[Opened]]


@pytest.fixture
async def open_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """Opens a device with a stream for large calls and one for small ones; it notes its losses."""
    completions = Completions()

    async def open_one(backend: str = "host", **host: Any) -> Opened:
        # What opening shows to the library is taken back at the end.
        monkeypatch.setenv(VISIBLE, "0")
        # The library takes its configuration once, so nothing of an earlier test's may be left.
        gc.collect()
        config = tmp_path / "acl.json"
        config.write_text(json.dumps({"host": host}))
        settings = Settings(
            backend=backend, acl_config=config, pool_bytes=2**28, streams=1, hang_timeout_s=HANG_TIMEOUT_S
        )
        losses: list[DeviceLostError] = []
        _, device = await open_device(settings, completions, lambda device, error: losses.append(error))
        return Opened(device, losses)

    yield open_one
    completions.close()


@pytest.fixture
async def device(open_one: Open) -> Device:
    return (await open_one()).device


async def test_each_thread_of_a_card_computes_the_self_test(open_one: Open, tmp_path: Path) -> None:
    """Without its extensions the host library is taken for a card; with them it needs one thread alone."""
    plan, contents = pooling_plan(1, 2, 2), [GRADIENT, None]
    for backend, threads in (("host", 1), (str(without(tmp_path, "aclHostPointersUsable")), 2)):
        device, _ = await open_one(backend)
        replies = await device.execute_on_each_thread(plan, contents, LATER)
        assert len(replies) == threads
        assert len(set(replies)) == 1
        device.close()


class Ends:
    count = 0

    def __call__(self) -> None:
        self.count += 1


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def keep_copying(device: Device) -> list["asyncio.Future[bytes]"]:
    """Gives every thread that copies something to do for a while."""
    return [asyncio.ensure_future(device.join([bytes(2**25)] * 2)) for _ in range(COPY_THREADS)]


async def test_file_that_its_caller_has_closed_is_not_taken_for_another(device: Device, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.write_bytes(b"m" * SIZE)
    other.write_bytes(b"o" * SIZE)
    (tensor,) = await device.stage([(SIZE, True)], LATER, Ends())
    busy = keep_copying(device)
    file = os.open(mine, os.O_RDONLY)
    before = open_files()
    reading = asyncio.ensure_future(device.read_file(tensor, file, 0, LATER))
    await settle()
    reading.cancel()
    await settle()
    # What another call would do meanwhile.
    os.close(file)
    assert os.open(other, os.O_RDONLY) == file
    await asyncio.gather(*busy)
    # A tensor takes one copy at a time: the device's own file is closed when the first is over.
    await wait_until(lambda: open_files() == before)
    assert await device.read([(tensor, 0, b"", SIZE)], LATER) == [b"m" * SIZE]
    os.close(file)
    # Those that are not abandoned are closed at once.
    with mine.open("r+b") as open_file:
        assert await device.read_file(tensor, open_file.fileno(), 0, LATER) == SIZE
        await device.write_file(tensor, open_file.fileno(), 0, LATER)
    assert open_files() == before - 1
    tensor.close()


@pytest.mark.parametrize("size_bytes", [SIZE, 2**40], ids=["given", "refused"])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["waiting", "gone"])
async def test_a_staging_ends_once_whoever_waits_for_it(device: Device, size_bytes: int, is_cancelled: bool) -> None:
    ends, busy = Ends(), keep_copying(device)
    staging = asyncio.ensure_future(device.stage([(size_bytes, False)], LATER, ends))
    # One turn of the loop submits it; in a later one it may have its tensors already.
    await asyncio.sleep(0)
    if is_cancelled:
        staging.cancel()
    await asyncio.gather(*busy)
    await asyncio.wait([staging])
    assert staging.cancelled() is is_cancelled
    if not is_cancelled and size_bytes == SIZE:
        assert ends.count == 0
        (tensor,) = staging.result()
        tensor.close()
        tensor.close()
    elif not is_cancelled:
        assert isinstance(staging.exception(), LimitExceededError)
    await wait_until(lambda: ends.count > 0)
    await device.take_sample()
    assert ends.count == 1


def group_of(plan: StepPlan, contents: Sequence[Content], count: int) -> GroupWork:
    """Returns independent steps."""
    steps = [(plan.native, contents, b"", None, (), ())] * count
    lanes = [([position], 0) for position in range(count)]
    return GroupWork(steps, [plan] * count, list(range(count)), lanes)


async def test_others_run_while_the_errors_of_a_group_are_translated(device: Device) -> None:
    inputs = (
        tensor("grad_output", 1, 1, 2, 2, data=bytes(16)),
        tensor("self", 1, 1, 2, 2),
        tensor("indices", 1, 1, 2, 2, dtype="int64", data=b"\x63" + bytes(31)),
    )
    attributes = {"output_size": (1, 2, 2), "stride": (1, 1, 1), "padding": (0, 0, 0)}
    call = OperatorCall("max_unpool3d_backward", inputs, attributes)
    plan = plan_call(call, Product.ATLAS_A2, Limits(NO_LIMIT, True))
    work = group_of(plan, contents_of(call, plan), 1000)
    others: list[int] = []
    limits = [sys.maxsize] * 1000
    group = asyncio.ensure_future(device.execute_group(work, LATER, 1, lambda: others.append(0), limits))
    while not group.done():
        if others:
            others.append(1)
        await asyncio.sleep(0)
    _, errors = group.result()
    assert len(errors) == 1000
    assert all(isinstance(error, InvalidFieldError) and error.field == "inputs[indices].data" for error in errors)
    assert len(others) > 5


async def test_sample_that_the_driver_does_not_answer_keeps_nobody_from_closing_the_device(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the last reference to the native device would be dropped on the loop's thread, where closing it blocks."""
    began = asyncio.Event()

    class Silent:
        """Stands before the native device, and takes requests for its state without an answer."""

        soc_name = device.soc_name

        def state(self, _: object) -> None:
            began.set()

    native = Silent()
    dropped = weakref.finalize(native, lambda: None)
    monkeypatch.setattr(device, "_device", native)
    del native
    sampling = asyncio.ensure_future(device.take_sample())
    await began.wait()
    sampling.cancel()
    await settle()
    await device.stop_sampling()
    monkeypatch.undo()
    assert not dropped.alive


async def test_work_that_never_began_is_no_hung_kernel(open_one: Open) -> None:
    """It waits behind another kernel, which has time, for longer than a kernel may take after its deadline."""
    hang = {"kind": "hang", "at": 1, "count": 2, "duration_ms": round(KERNEL_S * 1000)}
    device, losses = await open_one(faults=[hang])
    plan, contents, ends = pooling_plan(1, 2, 2), [GRADIENT, None], Ends()
    running = [asyncio.ensure_future(device.execute(plan, contents, LATER, ends)) for _ in range(2)]
    late = [
        asyncio.ensure_future(device.execute(plan, contents, time.monotonic() + left_s, ends))
        for left_s in (LATE_S, KERNEL_S - HANG_TIMEOUT_S)
    ]
    oldest_step_s = 0.0
    while not all(each.done() for each in late):
        device.check()
        oldest_step_s = max(oldest_step_s, device.oldest_step_s)
        await asyncio.sleep(0.01)
    assert [type(each.exception()) for each in late] == [DeadlinePassedError] * 2
    assert oldest_step_s < HANG_TIMEOUT_S, "work that waits is shown as a step of the driver"
    assert await asyncio.gather(*running) == [plan.outputs[0].reply_prefix + bytes(16)] * 2
    await wait_until(lambda: ends.count == 4)
    assert losses == []
    assert device.is_up


@pytest.mark.parametrize(("estimate_s", "is_lost"), [(0.0, True), (2.0, False)])
async def test_a_kernel_counts_as_hung_when_its_own_estimate_has_passed(
    open_one: Open, estimate_s: float, is_lost: bool
) -> None:
    """This one takes longer after its deadline than a kernel may that is said to be short."""
    device, losses = await open_one(faults=[{"kind": "hang", "at": 1, "duration_ms": round(KERNEL_S * 1000)}])
    plan = replace(pooling_plan(1, 2, 2), seconds=estimate_s)
    running = asyncio.ensure_future(device.execute(plan, [GRADIENT, None], time.monotonic() + LATE_S, lambda: None))
    while not running.done():
        if not is_lost:
            device.check()
        await asyncio.sleep(0.01)
    assert (bool(losses), not device.is_up, running.exception() is not None) == (is_lost,) * 3


async def holds_something(device: Device) -> bool:
    sample = await device.take_sample()
    return sample.pool.allocated_bytes != 0 or sample.leased_streams != 0


async def test_what_a_late_group_held_is_free_when_its_end_is_reported(open_one: Open) -> None:
    """Its results are there at the deadline; the kernel of its first step still runs then."""
    hang = {"kind": "hang", "at": 1, "duration_ms": round(SLOW_S * 1000)}
    device, _ = await open_one(host_pointers=False, faults=[hang])
    work, ends = group_of(pooling_plan(1, 2, 2), [GRADIENT, None], 3), Ends()
    begin_s = time.monotonic()
    _, errors = await device.execute_group(work, begin_s + LATE_S, 1, ends, [sys.maxsize] * 3)
    assert [type(each) for each in errors] == [DeadlinePassedError] * 3
    is_held = await holds_something(device)
    has_ended = ends.count > 0
    assert (is_held and not has_ended) or time.monotonic() > begin_s + SLOW_S
    while ends.count == 0:
        await device.release_finished()
    assert not await holds_something(device)
    assert ends.count == 1
