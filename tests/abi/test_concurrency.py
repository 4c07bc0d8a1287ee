"""Many host threads use one device at once."""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tools.abi.acl import Library

NAME = "aclnnAdaptiveAvgPool2dBackward"
THREADS = 8


def everywhere(work: Callable[[int], None]) -> None:
    """Runs work in several threads at once and raises the exception of one of them."""
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(work, range(THREADS)))


def test_each_thread_gets_its_own_gradient(acl: Library) -> None:
    shape = (4, 4, 50, 40)

    def work(number: int) -> None:
        acl.call("aclrtSetDevice", 0)
        with (
            acl.stream() as stream,
            acl.tensor(np.full((4, 4, 5, 4), number, np.float32)) as grad,
            acl.tensor(np.zeros(shape, np.float32)) as out,
        ):
            for _ in range(20):
                acl.run(NAME, grad.handle, out.handle, out.handle, stream=stream)
                np.testing.assert_allclose(out.read_storage(), number / 100, rtol=1e-6)
        acl.call("aclrtResetDevice", 0)

    everywhere(work)


def test_handles_come_and_go(acl: Library) -> None:
    shared = acl.create("aclrtCreateEvent")

    def work(number: int) -> None:
        acl.call("aclrtSetDevice", 0)
        for size in range(1, 100):
            with acl.stream() as stream, acl.event() as event, acl.buffer(size) as address:
                acl.call("aclrtMemsetAsync", address, size, number, size, stream)
                acl.call("aclrtRecordEvent", event, stream)
                acl.call("aclrtRecordEvent", shared, stream)
                acl.call("aclrtStreamWaitEvent", stream, shared)
                acl.call("aclrtSynchronizeEvent", event)
                assert set(acl.download(address, np.zeros(size, np.uint8))) == {number}
        acl.call("aclrtResetDevice", 0)

    everywhere(work)
    acl.call("aclrtDestroyEvent", shared)


def test_one_of_many_destroys_a_handle(acl: Library) -> None:
    for create, destroy in (("aclrtCreateStream", "aclrtDestroyStream"), ("aclrtCreateEvent", "aclrtDestroyEvent")):
        handle = acl.create(create)
        codes = []

        def work(_: int, name: str = destroy, target: ctypes.c_void_p = handle, results: list[int] = codes) -> None:
            acl.call("aclrtSetDevice", 0)
            results.append(getattr(acl, name)(target))
            acl.call("aclrtResetDevice", 0)

        everywhere(work)
        assert sorted(codes) == [0] + [107017] * (THREADS - 1)
