"""A process takes little more memory for a call than admission has counted, also for a mask of few bytes of indices.

As a program with a folder it prints a line for each call that takes more than it may.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import aclgrad_native as native
from aclgrad.allocator import trim_allocator
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.sources import in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View, input_of_array, view_of_array
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.opening import open_device
from aclgrad_server.devices.plan import Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.programs import ProgramPlanner
from aclgrad_server.settings import Settings
from tests.abi.kernel_memory import forget_peak, peak_bytes
from tests.long_shapes import MAX_BESIDE_BYTES, MAX_OF_TENSORS
from tests.server.fakes import FakeContext, new_call
from tests.server.sent import NO_LIMIT

HOSTS: tuple[dict[str, Any], ...] = (
    {"product": "910A"},
    {"product": "910A", "host_pointers": False},
    {"product": "910B", "host_pointers": False, "workspace_percent": 50},
)


class NotingDevice:
    """The device, which notes what is claimed when a call begins."""

    def __init__(self, device: Device, admission: Admission) -> None:
        self._device, self._admission = device, admission
        self.claimed = 0

    async def execute(self, *arguments: Any) -> bytes:
        claimed = self._admission.occupancy().running_bytes + self._admission.replies.used
        self.claimed = max(self.claimed, claimed)
        return await self._device.execute(*arguments)


async def compare(folder: Path, host: dict[str, Any]) -> None:
    config = folder / "acl.json"
    config.write_text(json.dumps({"host": host}))
    completions = Completions()
    settings = Settings(backend="host", acl_config=config, pool_bytes=2**31, streams=1)
    library, device = await open_device(settings, completions, lambda device, error: None)
    limits = Limits(NO_LIMIT, library.shape_only, host_pointers=library.host_pointers)
    read = replace(limits, reads_views=OPERATORS)
    for request, allowed in (
        (pooling(np.zeros((16, 1, 128, 128), np.int32), 20, 147), limits),
        (pooling(np.zeros((1, 1, 512, 512), np.int32), 1, 512), limits),
        (repeated((2**11, 2**12)), limits),
        (repeated((2**11, 2**12)), read),
        (looked_up(2**22), limits),
    ):
        planner = Planner(Product(host["product"]), allowed)
        admission = Admission(1, 1, device.pool_limit_bytes)
        noting: Any = NotingDevice(device, admission)
        await device.trim()
        trim_allocator()
        before = forget_peak()
        context = FakeContext()
        memory = SharedMemory(enabled=False, owners=())
        runner = Runner(noting, admission, planner, ProgramPlanner(planner), memory, 2**30, 2**40)
        await runner.execute(request, new_call(context))
        grown = peak_bytes() - before
        context.end()
        if grown > MAX_OF_TENSORS * noting.claimed + MAX_BESIDE_BYTES:
            print(f"{host}: grew by {grown} bytes, and {noting.claimed} were counted")
    device.close()
    completions.close()


def pooling(argmax: np.ndarray, kernel: int, size: int) -> bytes:
    """Returns a call whose argmax is small and whose mask is large: each window has its first cell."""
    rows, columns = (np.arange(each) for each in argmax.shape[2:])
    argmax[:] = rows[:, None] * size + columns
    grad, x = np.ones(argmax.shape, np.float32), np.ones((*argmax.shape[:2], size, size), np.float32)
    arrays = {"grad_output": grad, "self": x, "indices": argmax}
    views = tuple(view_of_array(name, array) for name, array in arrays.items())
    attributes = {"kernel_size": (kernel,) * 2, "stride": (1, 1), "padding": (0, 0)}
    return encode_request(OperatorCall("max_pool2d_with_mask_backward", views, attributes))


def repeated(shape: tuple[int, ...]) -> bytes:
    """Returns a call whose inputs are one value each, repeated."""
    value = in_message(memoryview(np.ones(1, np.float32)).cast("B"))
    inputs = [
        TensorView(name, TensorType(DTYPES["float32"], shape), value, View(0, (0, 0)))
        for name in ("grad_output", "output")
    ]
    return encode_request(OperatorCall("softmax_backward", tuple(inputs), {"dim": 1}))


def looked_up(count: int) -> bytes:
    """Returns a call whose indices are one index, repeated."""
    index = in_message(memoryview(np.zeros(1, np.int64)).cast("B"))
    indices = TensorView("indices", TensorType(DTYPES["int64"], (count,)), index, View(0, (0,)))
    grad = input_of_array("grad_output", np.broadcast_to(np.float32(1), (count, 2)))
    return encode_request(OperatorCall("embedding_dense_backward", (grad, indices), {"num_weights": 5}))


def test_a_process_grows_by_what_was_counted(tmp_path: Path) -> None:
    # The C library returns blocks of this size at once, so nothing is left that the next one would fit into.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-m", __name__, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


if __name__ == "__main__":
    # What the pool reserves beyond its blocks is bounded by its own limit.
    native.Device = partial(native.Device, pool_pass_through=True)  # type: ignore[misc,assignment]
    for each in HOSTS:
        asyncio.run(compare(Path(sys.argv[1]), each))
        # The library takes its product when nothing of an earlier one is left.
        gc.collect()
