"""What one call makes a server take: little more than what admission counted, whatever the shapes."""

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import aclgrad
from aclgrad.operators.cases import TypedCase
from aclgrad.products import Product
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorView
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices.plan import Limits, plan_call
from aclgrad_server.devices.planning import planned_step
from tests.long_shapes import MAX_BESIDE_BYTES, MAX_OF_TENSORS, long_arrays, long_calls
from tools.serving import Server

CELLS = int(os.environ.get("CALL_CELLS", str(2**21)))
DTYPES = ("float32", "float16")
MEBIBYTE = 2**20

pytestmark = [pytest.mark.slow, pytest.mark.once]


@pytest.fixture
def frugal_server() -> Iterator[Server]:
    """Keeps no memory from one call to the next, so that each grows from the same state."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/socket"
        flags = ("--tune-allocator", "false", "--shared-memory")
        changes = "keep_bytes=0 idle_trim_s=inf"
        variables = {"MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}
        with Server(*flags, listen=(address,), changes=changes, **variables) as server:
            yield server


def counted_bytes(typed: TypedCase) -> int | None:
    """Returns what the server claims for the call if its tensors come in shared memory; None if it refuses the call."""
    inputs = tuple(
        TensorView(name, type, SharedRange("/x", 0, type.size_bytes)) for name, type in typed.arguments.inputs.items()
    )
    call = OperatorCall(typed.spec.name, inputs, typed.case.attributes)
    try:
        step = planned_step(call, plan_call(call, Product.ATLAS_A2, Limits(2**40, True)))
    except aclgrad.RequestError:
        return None  # the ABI takes more bins and larger scales
    checked = (source.nbytes for index, source in step.beside if step.plan.rules[index] is not None)
    return step.plan.size_bytes + sum(checked)


def peak_bytes(server: Server) -> int:
    lines = Path(f"/proc/{server.process_id}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.mark.timeout(1800)
def test_a_call_takes_little_more_than_what_is_counted(frugal_server: Server) -> None:
    excesses, count = [], 0
    with aclgrad.Client(frugal_server.address, shared_memory=True, timeout_s=120) as client:
        for typed in long_calls(Product.ATLAS_A2, CELLS):
            counted = counted_bytes(typed)
            if counted is None or typed.dtype not in DTYPES:
                continue
            arrays = long_arrays(typed, Product.ATLAS_A2)
            Path(f"/proc/{frugal_server.process_id}/clear_refs").write_text("5")
            idle_bytes = peak_bytes(frugal_server)
            client.execute(typed.spec.name, arrays, typed.case.attributes)
            grown = peak_bytes(frugal_server) - idle_bytes
            if grown > MAX_OF_TENSORS * counted + MAX_BESIDE_BYTES:
                excesses.append(f"{typed}: {grown / MEBIBYTE:.1f} MiB, counted {counted / MEBIBYTE:.1f}")
            count += 1
            del arrays
            gc.collect()
    assert excesses == []
    assert count > 100
