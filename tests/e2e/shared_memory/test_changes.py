"""Objects that change while the server has them: the call ends with its result or a typed error, the server goes on."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall
from tests.e2e.shared_objects import Objects, send
from tools.raw_calls import error_of, open_channel
from tools.serving import Server

SIZE = (8, 256, 512)
LARGE = OperatorCall(
    "max_unpool3d_backward",
    (
        view_of_array("grad_output", np.random.default_rng(1).standard_normal((1, *SIZE), np.float32)),
        view_of_array("self", np.zeros((1, 4, 128, 256), np.float32)),
        view_of_array("indices", np.random.default_rng(2).integers(0, 8 * 256 * 512, (1, 4, 128, 256))),
    ),
    {"output_size": SIZE, "stride": (2, 2, 2), "padding": (0, 0, 0)},
)
OUTPUT_BYTES = 4 * 128 * 256 * 4
MOST_CALLS = 1000
"""A call that takes a shorter time than a change does may miss it many times in a row."""


@pytest.fixture
def channel(shared_server: Server) -> Iterator[grpc.Channel]:
    with open_channel(shared_server) as channel:
        yield channel


@contextmanager
def meanwhile(change: Callable[[], None]) -> Iterator[None]:
    """Repeats the change, all the time, until the block ends."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            change()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def outcome(channel: grpc.Channel, call: OperatorCall) -> aclgrad.AclgradError | None:
    try:
        send(channel, call)
    except grpc.RpcError as failure:
        return error_of(failure)
    return None


def test_an_object_that_shrinks_and_grows(channel: grpc.Channel, objects: Objects) -> None:
    call = objects.share(LARGE, output_bytes=OUTPUT_BYTES)
    paths = [objects.path(name) for name in ("grad_output", "indices", "output")]
    sizes = [path.stat().st_size for path in paths]

    def change() -> None:
        for path, size in zip(paths, sizes, strict=True):
            os.truncate(path, 0)
            time.sleep(0.001)
            os.truncate(path, size)
            time.sleep(0.004)

    with meanwhile(change):
        errors: list[aclgrad.AclgradError | None] = []
        while len(errors) < 20 or (len(errors) < MOST_CALLS and not any(errors)):
            errors.append(outcome(channel, call))
    refused = [error for error in errors if error is not None]
    assert refused
    assert {type(error) for error in refused} == {aclgrad.InvalidFieldError}
    told = {"bytes and the range ends at", "bytes left of"}
    assert all(any(each in str(error) for each in told) for error in refused)


def test_indices_that_change_never_reach_the_device_unchecked(channel: grpc.Channel, objects: Objects) -> None:
    """What passes is computed from what was checked: out of legal values, whatever else stood there meanwhile."""
    call = objects.share(LARGE, output_bytes=OUTPUT_BYTES)
    indices = np.memmap(objects.path("indices"), np.int64, "r+")
    good = np.array(indices[-1])
    grad_output = np.frombuffer(LARGE.inputs[0].data, np.float32)
    expected = grad_output[np.frombuffer(LARGE.inputs[2].data, np.int64)]

    def change() -> None:
        indices[-1] = 2**40
        time.sleep(0.003)
        indices[-1] = good
        time.sleep(0.003)

    with meanwhile(change):
        errors: list[aclgrad.AclgradError | None] = []
        while len(errors) < 30 or (len(errors) < MOST_CALLS and len(set(map(type, errors))) == 1):
            errors.append(outcome(channel, call))
            if errors[-1] is None:
                output = np.frombuffer(objects.content(call.output_memory["out"]), np.float32)
                assert np.array_equal(output, expected)
    assert {type(error) for error in errors} == {type(None), aclgrad.InvalidFieldError}
    assert {error.field for error in errors if error} == {"inputs[indices].data"}
