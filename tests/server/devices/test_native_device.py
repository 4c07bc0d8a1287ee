"""A device of the host library: what becomes of work whose caller has gone."""

import asyncio
import gc
import json
import os
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aclgrad.errors import DeadlinePassedError, DeviceLostError, InvalidFieldError, LimitExceededError
from aclgrad.products import Product
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import COPY_THREADS, Device
from aclgrad_server.devices.opening import DeviceGroup, open_devices
from aclgrad_server.plan import plan_call
from aclgrad_server.settings import Settings
from tests.server.fakes import LATER, NO_LIMIT, pooling_plan, settle, tensor, wait_until

# Other files open the library in their own process too, and the last to go ends the runtime for all.
pytestmark = pytest.mark.alone

SIZE = 2**20


@pytest.fixture
async def group() -> AsyncIterator[DeviceGroup]:
    completions = Completions()
    settings = Settings(backend="host", pool_bytes=2**28)
    yield await open_devices(settings, completions, lambda device, error: None)
    completions.close()


@pytest.fixture
def device(group: DeviceGroup) -> Device:
    return group.devices[0]


class Ends:
    count = 0

    def __call__(self) -> None:
        self.count += 1


def keep_copying(device: Device) -> list["asyncio.Future[bytes]"]:
    """Gives every thread that copies something to do for a while."""
    return [asyncio.ensure_future(device.join([bytes(2**26)] * 2)) for _ in range(COPY_THREADS)]


async def test_call_reaches_the_device_and_its_end_is_reported(device: Device) -> None:
    plan = pooling_plan(1, 2, 2)
    prepared = plan.with_prepared(device.prepare(plan))
    ends = Ends()
    reply = await device.execute(prepared, prepared.contents(()), LATER, ends)
    assert reply == plan.reply_prefix + bytes(16)
    assert ends.count == 1


async def test_file_that_its_caller_has_closed_is_not_taken_for_another(device: Device, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.write_bytes(b"m" * SIZE)
    other.write_bytes(b"o" * SIZE)
    (tensor,) = await device.stage([(SIZE, True)], LATER, Ends())
    busy = keep_copying(device)
    file = os.open(mine, os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    reading = asyncio.ensure_future(tensor.read_file(file, 0, LATER))
    await settle()
    reading.cancel()
    await settle()
    # What another call would do meanwhile.
    os.close(file)
    assert os.open(other, os.O_RDONLY) == file
    await asyncio.gather(*busy)
    # A tensor takes one copy at a time: the device's own file is closed when the first is over.
    await wait_until(lambda: len(os.listdir("/proc/self/fd")) == before)
    assert await tensor.read(0, SIZE, b"", LATER) == b"m" * SIZE
    os.close(file)
    tensor.close()


async def test_files_are_closed_when_the_device_is_done_with_them(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"m" * SIZE)
    (tensor,) = await device.stage([(SIZE, True)], LATER, Ends())
    before = len(os.listdir("/proc/self/fd"))
    with path.open("r+b") as file:
        assert await tensor.read_file(file.fileno(), 0, LATER) == SIZE
        await tensor.write_file(file.fileno(), 0, LATER)
    assert len(os.listdir("/proc/self/fd")) == before
    tensor.close()


async def test_staged_tensors_are_released_once_when_all_are_closed(device: Device) -> None:
    ends = Ends()
    first, second = await device.stage([(SIZE, False), (SIZE, True)], LATER, ends)
    first.close()
    await device.take_sample()
    assert ends.count == 0
    second.close()
    second.close()
    await wait_until(lambda: ends.count == 1)


async def test_staging_whose_caller_has_gone_is_released(device: Device) -> None:
    ends = Ends()
    busy = keep_copying(device)
    staging = asyncio.ensure_future(device.stage([(SIZE, False)], LATER, ends))
    # One turn of the loop submits it; in a later one it may have its tensors already.
    await asyncio.sleep(0)
    assert staging.cancel()
    await asyncio.gather(*busy)
    await wait_until(lambda: ends.count == 1)


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["waiting", "gone"])
async def test_staging_that_fails_ends_once(device: Device, is_cancelled: bool) -> None:
    ends = Ends()
    staging = asyncio.ensure_future(device.stage([(2**40, False)], LATER, ends))
    await asyncio.sleep(0)
    if is_cancelled:
        staging.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else LimitExceededError):
        await staging
    await wait_until(lambda: ends.count > 0)
    for _ in range(3):
        await device.take_sample()
    assert ends.count == 1


async def test_others_run_while_the_errors_of_a_batch_are_translated(device: Device) -> None:
    inputs = (
        tensor("grad_output", 1, 1, 2, 2, data=bytes(16)),
        tensor("self", 1, 1, 2, 2),
        tensor("indices", 1, 1, 2, 2, dtype="int64", data=b"\x63" + bytes(31)),
    )
    attributes = {"output_size": (1, 2, 2), "stride": (1, 1, 1), "padding": (0, 0, 0)}
    plan = plan_call(OperatorCall("max_unpool3d_backward", inputs, attributes), Product.ATLAS_A2, NO_LIMIT, True)
    prepared = plan.with_prepared(device.prepare(plan))
    calls = [(prepared, prepared.contents(()), b"")] * (1000)
    others: list[int] = []
    batch = asyncio.ensure_future(device.execute_all(calls, LATER, 1, lambda: others.append(0)))
    while not batch.done():
        if others:
            others.append(1)
        await asyncio.sleep(0)
    _, errors = batch.result()
    assert len(errors) == len(calls)
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


HANG_TIMEOUT_S = 1.0
KERNEL_S = 3.0
"""Of one kernel, so that work behind it waits for longer than until a hung kernel would be given up."""


class Opened(NamedTuple):
    device: Device
    losses: list[DeviceLostError]


@pytest.fixture
async def faulty(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Opened]]]:
    """Opens a device with a stream for large calls and one for small ones; it notes its losses."""
    completions = Completions()

    async def open_faulty(**host: Any) -> Opened:
        # The library takes its configuration once, so nothing of an earlier test's may be left.
        gc.collect()
        config = tmp_path / "acl.json"
        config.write_text(json.dumps({"host": host}))
        settings = Settings(
            backend="host", acl_config=config, pool_bytes=2**28, streams=1, hang_timeout_s=HANG_TIMEOUT_S
        )
        losses: list[DeviceLostError] = []
        opened = await open_devices(settings, completions, lambda device, error: losses.append(error))
        return Opened(opened.devices[0], losses)

    yield open_faulty
    completions.close()


OpenFaulty = Callable[..., Awaitable[Opened]]


async def test_work_that_never_began_is_no_hung_kernel(faulty: OpenFaulty) -> None:
    """It waits behind another kernel, which has time, for longer than a kernel may take after its deadline."""
    hang = {"kind": "hang", "at": 1, "count": 2, "duration_ms": round(KERNEL_S * 1000)}
    device, losses = await faulty(faults=[hang])
    plan = pooling_plan(1, 2, 2)
    prepared = plan.with_prepared(device.prepare(plan))
    contents = prepared.contents(())
    ends = Ends()
    running = [asyncio.ensure_future(device.execute(prepared, contents, LATER, ends)) for _ in range(2)]
    late = [
        asyncio.ensure_future(device.execute(prepared, contents, time.monotonic() + left_s, ends))
        for left_s in (0.1, KERNEL_S - HANG_TIMEOUT_S)
    ]
    oldest_step_s = 0.0
    while not all(each.done() for each in late):
        device.check()
        oldest_step_s = max(oldest_step_s, device.oldest_step_s)
        await asyncio.sleep(0.01)
    assert [type(each.exception()) for each in late] == [DeadlinePassedError] * 2
    assert oldest_step_s < HANG_TIMEOUT_S / 2, "work that waits is shown as a step of the driver"
    assert await asyncio.gather(*running) == [prepared.reply_prefix + bytes(16)] * 2
    await wait_until(lambda: ends.count == 4)
    assert losses == []
    assert device.is_up


async def holds_something(device: Device) -> bool:
    sample = await device.take_sample()
    return sample.pool.allocated_bytes != 0 or sample.leased_streams != 0


async def test_what_an_abandoned_copy_held_is_free_when_its_end_is_reported(faulty: OpenFaulty) -> None:
    """Its client has gone; the copy of its tensor goes on."""
    slow = {"kind": "slow_copy", "at": 1, "duration_ms": 500}
    device, _ = await faulty(host_pointers=False, faults=[slow])
    ends = Ends()
    (tensor,) = await device.stage([(SIZE, False)], LATER, ends)
    with pytest.raises(DeadlinePassedError):
        await tensor.write(0, memoryview(bytes(SIZE)), time.monotonic() + 0.1)
    tensor.close()
    assert await holds_something(device)
    assert ends.count == 0
    while ends.count == 0:
        await device.release_finished()
    assert not await holds_something(device)
    assert ends.count == 1


@pytest.mark.parametrize("host_pointers", [False, True])
async def test_what_a_late_batch_held_is_free_when_its_end_is_reported(faulty: OpenFaulty, host_pointers: bool) -> None:
    """Its results are there at the deadline; the kernel of its first call still runs then."""
    hang = {"kind": "hang", "at": 1, "duration_ms": 500}
    device, _ = await faulty(host_pointers=host_pointers, faults=[hang])
    plan = pooling_plan(1, 2, 2)
    prepared = plan.with_prepared(device.prepare(plan))
    ends = Ends()
    calls = [(prepared, prepared.contents(()), b"")] * 3
    _, errors = await device.execute_all(calls, time.monotonic() + 0.1, 1, ends)
    assert [type(each) for each in errors] == [DeadlinePassedError] * 3
    assert await holds_something(device)
    assert ends.count == 0
    while ends.count == 0:
        await device.release_finished()
    assert not await holds_something(device)
    assert ends.count == 1
