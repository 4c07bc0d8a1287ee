"""A device of the host library: what becomes of work whose caller has gone."""

import asyncio
import os
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aclgrad.errors import InvalidFieldError, LimitExceededError
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
