"""How often the server copies a tensor: bytes through memcpy and memmove in a call, over the bytes of the tensor.

The server runs with `copies.cpp` preloaded, which counts but does not time. A second call with a single element of each
plane as input, and the same output, separates the copies of inputs from those of outputs.
"""

from __future__ import annotations  # grpc's classes are generic in their stubs alone

import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import numpy as np

from aclgrad.wire.service import SERVICE
from tools.benchmarks import ceilings
from tools.benchmarks.loads import channel_to, request_of
from tools.benchmarks.measure import Served, running
from tools.benchmarks.sizes import SIZES, Size
from tools.benchmarks.wire import SERVER, SERVER_FLAGS

LIBRARY: Final = Path("build/bench/libcopies.so")
CALLS: Final = 4


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of one tensor on its way in and on its way out, in user space."""

    server: str
    size: str
    received: float
    sent: float


def count_copies(sizes: tuple[str, ...]) -> list[Copies]:
    """Returns the copies of the echo and of ExecuteOperator; none where the counter was not built."""
    counted: list[Copies] = []
    if not LIBRARY.exists():
        return counted
    for name, module, flags in (
        ("echo", "tools.benchmarks.ceilings", ()),
        ("unary", SERVER, SERVER_FLAGS),
        ("unary, device without host pointers", SERVER, (*SERVER_FLAGS, "--acl-config", _config())),
    ):
        with tempfile.NamedTemporaryFile() as counter:
            counter.write(bytes(8))
            counter.flush()
            path = Path(counter.name)
            with running(module, *flags, LD_PRELOAD=str(LIBRARY.resolve()), COPY_COUNTER=counter.name) as served:
                counted += [_count(name, SIZES[size], served, path) for size in sizes]
    return counted


def _count(name: str, size: Size, served: Served, counter: Path) -> Copies:
    planes = (*size.shape[:2], 1, 1)
    both = _copied(name, size, size.shape, served, counter)
    out_alone = _copied(name, size, planes, served, counter) / size.tensor_bytes
    return Copies(name, size.name, both / size.tensor_bytes - out_alone, out_alone)


def _copied(name: str, size: Size, pooled: tuple[int, ...], served: Served, counter: Path) -> float:
    """Returns the bytes copied in a call with a gradient of the shape `pooled`."""
    request = request_of(np.ones(pooled, np.float32), size.shape)
    method = SERVICE + "ExecuteOperator"
    if name == "echo":
        request, method = ceilings.request_for(len(request), size.tensor_bytes), ceilings.UNARY
    with channel_to(served.address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        call(request, wait_for_ready=True)
        before = _read(counter)
        for _ in range(CALLS):
            call(request)
        return (_read(counter) - before) / CALLS


def _read(counter: Path) -> int:
    (value,) = struct.unpack("=Q", counter.read_bytes())
    return int(value)


def _config() -> str:
    path = LIBRARY.parent / "copies.json"
    path.write_text('{"host": {"host_pointers": false}}')
    return str(path.resolve())
