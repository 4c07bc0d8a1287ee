"""The memory pool, by the statistics of a device that does not accept host memory."""

import ctypes
import gc

import numpy as np
import pytest

import aclgrad_native
from aclgrad_native import AclError, CallTemplate, Input, OutOfMemoryError, WorkspaceError

from .blocking import BlockingDevice, alone, lane
from .forked import CONTENTS, KERNEL_WAIT, hang, open_device, outcome, steer
from .forks import in_fork
from .pooling import FLOAT32, assert_pooled, plan, pool, returned

INT32 = 3

GRAD = np.ones((1, 2, 2), np.float32)
MEBIBYTE = 1 << 20


LIBRARIES = {"copies": {"host_pointers": False, "strict": True}}


def test_memory_of_a_call_is_given_back_and_used_again(device: BlockingDevice) -> None:
    pool(device, GRAD, (1, 64, 64))
    first = device.state().pool
    assert first.allocated_bytes == 0
    assert first.peak_allocated_bytes >= 2 * 64 * 64 * 4 + GRAD.nbytes
    assert first.reserved_bytes >= first.peak_allocated_bytes
    pool(device, GRAD, (1, 64, 64))
    second = device.state().pool
    assert second.reserved_bytes == first.reserved_bytes
    assert second.allocation_count == 2 * first.allocation_count
    assert second.hit_count - first.hit_count == first.allocation_count


@pytest.mark.parametrize("pass_through", [True, False])
def test_the_pool_counts_what_the_device_charges(library: aclgrad_native.AclLibrary, pass_through: bool) -> None:
    """And gives it back: a trim what is not used, the end of a device everything."""
    # A caught error of an earlier test holds its frame, and the frame's device, until the collector comes.
    gc.collect()
    other = BlockingDevice(library)
    before = other.state().free_bytes
    device = BlockingDevice(library, pool_limit_bytes=None, pool_pass_through=pass_through)
    tensors = device.stage(1, 1000, 3 << 20)
    assert before - other.state().free_bytes == device.state().pool.reserved_bytes > 3 << 20
    for tensor in tensors:
        tensor.native.close()
    device.assert_idle()
    device.trim()
    assert (device.state().pool.reserved_bytes, other.state().free_bytes) == (0, before)
    pool(device, GRAD, (1, 512, 512))
    assert pass_through or other.state().free_bytes < before
    del tensor, tensors, device
    assert other.state().free_bytes == before


@pytest.mark.parametrize(("limit", "shape"), [(4, (1, 2048, 2048)), (5, (1, 1024, 1023))])
def test_a_call_that_does_not_fit_is_out_of_memory(
    library: aclgrad_native.AclLibrary, limit: int, shape: tuple[int, ...]
) -> None:
    """One tensor is larger than the pool, or several are together."""
    device = BlockingDevice(library, pool_limit_bytes=limit * MEBIBYTE, stream_limit=1)
    with pytest.raises(OutOfMemoryError) as caught:
        pool(device, GRAD, shape)
    error, statistics = caught.value, device.state().pool
    assert isinstance(error, AclError)
    assert (error.code, error.limit_bytes) == (207001, limit * MEBIBYTE)
    if error.size_bytes <= error.limit_bytes:
        assert error.allocated_bytes > 0
    assert error.size_bytes == 4 * np.prod(shape)
    assert str(error.size_bytes) in str(error)
    assert str(error.limit_bytes) in str(error)
    assert (statistics.allocated_bytes, statistics.out_of_memory_count) == (0, 1)
    assert statistics.limit_bytes == limit * MEBIBYTE
    assert pool(device, GRAD, (1, 4, 4)).sum() == 4


def test_cache_makes_room_for_tensors_of_another_size(library: aclgrad_native.AclLibrary) -> None:
    device = BlockingDevice(library, pool_limit_bytes=10 * MEBIBYTE, stream_limit=1)
    for size in (100, 300, 700, 1000, 700, 300, 100):
        assert pool(device, GRAD, (1, size, size)).sum() == pytest.approx(4)
        assert device.state().pool.reserved_bytes <= 10 * MEBIBYTE
    assert device.state().pool.out_of_memory_count == 0


def roi_align_call() -> tuple[CallTemplate, list[bytes]]:
    """Returns a call of an operator that takes a workspace, and its inputs."""
    shape = (1, 8, 64, 64)
    boxes = np.array([[0, 0, 0, 60, 60]], np.float32)
    bins = np.ones((1, 8, 2, 2), np.float32)
    inputs = [Input(each.shape, FLOAT32) for each in (bins, boxes)]
    attributes = [list(shape), 2, 2, 1.0, 2, False]
    plan = CallTemplate("aclnnRoiAlignV2Backward", inputs, attributes, [returned(shape)])
    return plan, [bins.tobytes(), boxes.tobytes()]


def test_a_workspace_is_that_of_its_call(library: aclgrad_native.AclLibrary) -> None:
    """No stream keeps one."""
    device = BlockingDevice(library, pool_pass_through=True)
    assert device.execute_all([(*roi_align_call(), b"")] * 2)[1] == [None, None]
    statistics = device.state().pool
    assert statistics.allocation_count == 2 * 4, "two inputs, the output, and the workspace"
    assert (statistics.allocated_bytes, statistics.reserved_bytes) == (0, 0)


@pytest.mark.parametrize("executor_limit", [0, 8])
def test_a_call_ends_before_its_kernel_if_its_workspace_is_too_small(
    library: aclgrad_native.AclLibrary, executor_limit: int
) -> None:
    """Whether its executor was kept or not; the next attempt has what the library asked for."""
    device = BlockingDevice(library, stream_limit=1, executor_limit=executor_limit)
    plan, contents = roi_align_call()
    with pytest.raises(WorkspaceError, match=r"of \d+ bytes, more than its call may have") as caught:
        submit(device, plan, contents, 0)
    needed = caught.value.size_bytes
    assert needed > 0
    with pytest.raises(WorkspaceError):
        submit(device, plan, contents, needed - 1)
    device.assert_idle()
    assert submit(device, plan, contents, needed) == device.execute(plan, contents)
    lanes = [lane(each, workspace_limit=limit) for each, limit in enumerate((needed, 0, needed))]
    _, errors, _ = device.run_group([alone(plan, contents)] * 3, lanes)
    assert [getattr(error, "size_bytes", None) for error in errors] == [None, needed, None]
    device.assert_idle()


def submit(device: BlockingDevice, plan: CallTemplate, contents: list[bytes], limit: int) -> bytes:
    reply: bytes = device.waiting.result(device.submit(plan, contents, workspace_limit=limit))
    return reply


def test_a_workspace_has_padding_behind_it(library: aclgrad_native.AclLibrary) -> None:
    """The sizes grow by 4 bytes, so some fit in an earlier call's block only without the padding."""
    device = BlockingDevice(library, pool_limit_bytes=64 * MEBIBYTE, stream_limit=1)
    for width in range(1, 160):
        shape = (1, 1, width)
        inputs = [Input(shape, dtype) for dtype in (FLOAT32, FLOAT32, INT32)]
        attributes: list[list[int] | bool] = [[1], [1], [0], [1], False]
        plan = CallTemplate("aclnnMaxPool2dWithIndicesBackward", inputs, attributes, [returned(shape)])
        grad = np.arange(width, dtype=np.float32).tobytes()
        assert device.execute(plan, [grad, None, np.arange(width, dtype=np.int32).tobytes()]) == grad


# The first four blocks are those of the first call: its inputs, its output, and its stream's pinned memory.
SLOW_BLOCK = {"kind": "hang_allocation", "at": 5, "duration_ms": 1000}


@in_fork(host_pointers=False, faults=[hang(duration_ms=300), SLOW_BLOCK])
def test_what_abandoned_work_held_serves_the_next_call() -> None:
    """The abandoned kernel ends after the next call has begun, and before that needs its memory."""
    device = open_device(pool_limit_bytes=16 << 20, pool_pass_through=True)
    shape, pooled = (1, 1, 5 << 18), (1, 1, 2 << 18)
    assert outcome(device.execute, plan((1, 1, 1), shape), CONTENTS, 0.1) == f"timeout {KERNEL_WAIT}"
    assert len(device.execute(plan(pooled, shape), [bytes(2 << 20), None])) == 5 << 20


CROWDED = {"set": (800 * MEBIBYTE, 800, [40, 60]), "default": (None, 900, [40])}
"""The limit of the pool, what it is then in MiB, and what of 180, 60 and 40 MiB is staged."""


@pytest.mark.parametrize(("limit", "actual", "staged"), CROWDED.values(), ids=CROWDED)
@in_fork()
def test_the_pool_grows_into_what_others_left(limit: int | None, actual: int, staged: list[int]) -> None:
    """By default it also leaves the tenth that was not its own when the device was opened."""
    steer.SetFree(ctypes.c_size_t(1000 * MEBIBYTE))
    device = open_device(steered=True, pool_limit_bytes=limit)
    assert device.native.pool_limit_bytes == actual * MEBIBYTE
    steer.SetFree(ctypes.c_size_t(150 * MEBIBYTE))
    for size in (180, 60, 40):
        if size in staged:
            device.stage(size * MEBIBYTE)
        else:
            with pytest.raises(OutOfMemoryError, match=r"; the device has only 157286400 bytes left$"):
                device.stage(size * MEBIBYTE)


LARGE = (1, 1, 1 << 18)


@pytest.mark.parametrize(
    ("limit", "fails", "is_pinned"),
    [(8 * MEBIBYTE, False, True), (MEBIBYTE >> 1, False, False), (8 * MEBIBYTE, True, False)],
    ids=["enough", "none left", "refused"],
)
@in_fork(host_pointers=False, strict=True)
def test_what_has_no_pinned_memory_is_copied_without(limit: int, fails: bool, is_pinned: bool) -> None:
    """No call fails for lack of device memory; a trim gives back what is pinned."""
    device = open_device(steered=True, pinned_limit_bytes=limit)
    if fails:
        steer.Fail(b"aclrtMallocHost", 207001, -1)
    assert_pooled(device, LARGE, 2)
    assert steer.Calls(b"aclrtMemcpy") == (0 if is_pinned else 2)
    (tensor,) = device.stage(5 << 20)
    data = bytes(range(256)) * (5 << 12)
    tensor.write(0, data)
    assert tensor.read(0, len(data)) == data
    assert (steer.Calls(b"aclrtMemcpyAsync") > 2) == is_pinned
    assert device.state().pinned_bytes <= limit
    assert (device.state().pinned_bytes > 0) == is_pinned
    device.trim()
    assert device.state().pinned_bytes == 0


@in_fork(host_pointers=False)
def test_what_cannot_be_freed_stays_counted() -> None:
    """The memory is still taken, and calls go on in other memory."""
    device = open_device(steered=True)
    assert_pooled(device, LARGE, 2)
    before = device.state()
    for name in (b"aclrtFree", b"aclrtFreeHost"):
        steer.Fail(name, 507899, -1)
    device.trim()
    after = device.state()
    assert (after.pool.reserved_bytes, after.pinned_bytes) == (before.pool.reserved_bytes, before.pinned_bytes)
    assert min(after.pool.reserved_bytes, after.pinned_bytes) > 0
    assert_pooled(device, LARGE, 2)


@in_fork(host_pointers=False, strict=True, faults=[{"kind": "out_of_pinned_memory", "at": 1, "count": 1000}])
def test_a_host_that_refuses_pinned_memory_says_why_and_is_not_asked_for_every_call() -> None:
    """Each refusal would write to the log of CANN. Calls go on, with blocking copies."""
    device = open_device(steered=True, stream_limit=1)
    assert device.native.pinned_refusal == ""
    steer.Calls(b"aclrtMallocHost")
    for _ in range(5):
        assert_pooled(device, (1, 1, 4), 2)
    assert steer.Calls(b"aclrtMallocHost") == 1
    words = "not short of memory", "`ulimit -l`", "container"
    assert [word for word in words if word not in device.native.pinned_refusal] == []


@in_fork(host_pointers=False, strict=True)
def test_pinned_memory_of_one_size_gives_way_to_another() -> None:
    """Without it, copies would block until the server is idle."""
    device = open_device(steered=True, pinned_limit_bytes=4 * MEBIBYTE + 4096)
    for cells in (1 << 19, 1 << 10, 1 << 19):
        pool(device, np.zeros((1, 1, cells), np.float32), (1, 2, cells))
        assert steer.Calls(b"aclrtMemcpy") == 0
