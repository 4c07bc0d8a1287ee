"""What calls make a process take of memory, compared with what admission has counted for them.

`python -m tests.server.calls.claimed_memory FOLDER SETTINGS CELLS` prints a line for each long call that takes more
than it may, and the number of calls. The settings are those of the host library, as JSON.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import aclgrad_native as native
from aclgrad.allocator import trim_allocator
from aclgrad.errors import RequestError
from aclgrad.masks import MaskLayout
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.values import ArgmaxRule
from aclgrad.products import Product
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.calls.unary import execute_unary
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.opening import open_device
from aclgrad_server.devices.planning import Planner
from aclgrad_server.settings import Settings
from tests.abi.kernel_memory import MOST_CELLS, forget_peak, peak_bytes
from tests.long_shapes import MAX_BESIDE_BYTES, MAX_OF_TENSORS, long_arrays, long_calls
from tests.server.fakes import NO_LIMIT, FakeContext, new_call

MEBIBYTE = 2**20


class NotingAdmission(Admission):
    """Notes the most that was claimed."""

    most_bytes = 0

    def note(self) -> None:
        self.most_bytes = max(self.most_bytes, self.occupancy().running_bytes + self.replies.used)


class NotingDevice:
    """The device, which has the admission note what is claimed whenever a call begins."""

    def __init__(self, device: Device, admission: NotingAdmission) -> None:
        self._device, self._admission = device, admission

    async def execute(self, *arguments: Any) -> bytes:
        self._admission.note()
        return await self._device.execute(*arguments)


async def compare(folder: Path, host: dict[str, Any], cells: int) -> None:
    product = Product(host["product"])
    config = folder / "acl.json"
    config.write_text(json.dumps({"host": host}))
    # What the pool reserves beyond its blocks is bounded by its own limit.
    native.Device = partial(native.Device, pool_pass_through=True)  # type: ignore[misc,assignment]
    completions = Completions()
    settings = Settings(backend="host", acl_config=config, pool_bytes=2**31, streams=1)
    library, device = await open_device(settings, completions, lambda device, error: None)
    planner = Planner(product, NO_LIMIT, library.shape_only, host_pointers=library.host_pointers)
    shared_memory, count, worst = SharedMemory(enabled=False, owners=()), 0, 0.0
    for name, request in _requests(product, cells):
        admission = NotingAdmission(1, 1, device.pool_limit_bytes)
        noting: Any = NotingDevice(device, admission)
        runner = Runner(noting, admission, planner, 2**30)
        await device.trim()
        trim_allocator()
        before = forget_peak()
        context = FakeContext()
        try:
            await execute_unary(runner, shared_memory, request, new_call(context))
        except RequestError:
            continue  # larger than the server takes
        grown, claimed = peak_bytes() - before, admission.most_bytes
        context.end()
        if grown > MAX_OF_TENSORS * claimed + MAX_BESIDE_BYTES:
            print(f"{name}: grew by {grown / MEBIBYTE:.1f} MiB, and {claimed / MEBIBYTE:.1f} MiB were counted")
        worst = max(worst, (grown - MAX_BESIDE_BYTES) / claimed)
        count += 1
    print(f"{worst:.2f} of what was counted, and 4 MiB, at most", file=sys.stderr)
    print(count)
    device.close()
    completions.close()


def _requests(product: Product, cells: int) -> Iterator[tuple[str, bytes]]:
    yield "argmax of large windows", _pooling(np.zeros((16, 1, 128, 128), np.int32), 20, 147)
    yield "argmax of windows of one cell", _pooling(np.arange(2**18, dtype=np.int32).reshape(1, 1, 512, 512), 1, 512)
    for typed in long_calls(product, cells) if cells else ():
        if typed.dtype == "float32" and not _has_many_bits(typed, product):
            yield str(typed), _encoded(typed.spec.name, long_arrays(typed, product), typed.attributes)


def _pooling(argmax: np.ndarray, kernel: int, size: int) -> bytes:
    """Returns a call whose argmax is small and whose mask is large; of larger windows, each has its first cell."""
    rows, columns = (np.arange(each) for each in argmax.shape[2:])
    argmax[:] = rows[:, None] * size + columns
    grad = np.ones(argmax.shape, np.float32)
    x = np.ones((*argmax.shape[:2], size, size), np.float32)
    attributes = {"kernel_size": (kernel,) * 2, "stride": (1, 1), "padding": (0, 0)}
    arrays = {"grad_output": grad, "self": x, "indices": argmax}
    return _encoded("max_pool2d_with_mask_backward", arrays, attributes)


def _has_many_bits(typed: TypedCase, product: Product) -> bool:
    """Bits for large windows would take minutes."""
    rules = [each.values(typed.arguments, product) for each in typed.spec.inputs if each.name in typed.arguments.inputs]
    return any(
        isinstance(rule, ArgmaxRule)
        and rule.layout is MaskLayout.UINT16_BITS
        and rule.pooling.window_cells > MOST_CELLS
        for rule in rules
    )


def _encoded(operator: str, arrays: dict[str, np.ndarray], attributes: Any) -> bytes:
    views = tuple(view_of_array(name, array) for name, array in arrays.items())
    return encode_request(OperatorCall(operator, views, attributes))


if __name__ == "__main__":
    asyncio.run(compare(Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])))
