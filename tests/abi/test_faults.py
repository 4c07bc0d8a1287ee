"""The fault plan of the configuration: each fault at its number, and its effect on later calls."""

from collections.abc import Callable

import pytest

RUN = """
import time
NAME = "aclnnAdaptiveAvgPool2dBackward"
acl.call('aclInit', None)
acl.call('aclrtSetDevice', 0)
device = acl.create('aclrtMalloc', 256, 0).value
pinned = acl.create('aclrtMallocHost', 256).value
host = (ctypes.c_uint8 * 256)(*range(256))
out = ctypes.c_void_p()
stream = acl.create('aclrtCreateStream')

def launch(on=stream):
    with acl.describe((1, 1, 2, 2), address=device) as grad, acl.describe((1, 1, 4, 4), address=device + 64) as result:
        size, executor = acl.plan(NAME, grad, result, result)
        return getattr(acl, NAME)(None, size, executor, on)

def malloc():
    return acl.aclrtMalloc(ctypes.byref(out), 8, 0)

def sync(timeout=-1, on=stream):
    return acl.aclrtSynchronizeStreamWithTimeout(on, timeout)

def copy():
    return acl.aclrtMemcpy(device, 256, host, 256, 1)
"""

Fails = Callable[..., list[str]]


@pytest.fixture
def run(run_program: Callable[..., list[str]]) -> Fails:
    def run(faults: list[dict[str, object]], program: str, **settings: object) -> list[str]:
        return run_program(RUN + program, {"faults": faults, "devices": 2, **settings})

    return run


def test_faults_may_begin_after_some_launches(run: Fails) -> None:
    # Copies of the last of these do not count either: the plan begins with an allocation or a launch.
    lines = run(
        [{"kind": "out_of_memory", "at": 2}, {"kind": "copy_error", "at": 1, "code": 507051}],
        "print(malloc(), launch(), sync(), copy(), malloc(), launch(), sync(), copy())\n"
        "print(malloc(), malloc(), copy(), malloc(), copy())\n",
        faults_after_launches=2,
    )
    assert lines == ["0 0 0 0 0 0 0 0", "0 207001 507051 0 0"]


def test_an_output_that_is_not_written_keeps_what_was_in_its_memory(run: Fails) -> None:
    lines = run(
        [{"kind": "unwritten_output", "at": 2}],
        "back = (ctypes.c_uint8 * 64)()\n"
        "for _ in range(3):\n"
        "    codes = copy(), launch(), sync(), acl.aclrtMemcpy(back, 64, device + 64, 64, 2)\n"
        "    print(*codes, bytes(back) == bytes(host[64:128]))",
    )
    assert lines == ["0 0 0 0 False", "0 0 0 0 True", "0 0 0 0 False"]


def test_out_of_memory(run: Fails) -> None:
    # Two allocations are made before; those that are refused for their arguments do not count.
    faults = [{"kind": "out_of_memory", "at": 3}, {"kind": "out_of_memory", "at": 5, "count": 2}]
    lines = run(
        faults,
        "acl.aclrtMalloc(ctypes.byref(out), 0, 0)\n"
        "print(malloc(), acl.message())\n"
        "print(malloc(), malloc(), acl.aclrtMallocHost(ctypes.byref(out), 8), malloc())\n"
        "print(launch(), sync(), copy())\n",
    )
    assert lines[0].startswith("207001 ")
    assert "allocation 3" in lines[0]
    assert lines[1:] == ["0 207001 207001 0", "0 0 0"]


def test_an_error_that_the_device_survives(run: Fails) -> None:
    lines = run(
        [{"kind": "launch_error", "at": 2, "code": 507051}],
        "print(launch(), launch(), launch(), sync())\n"
        "print(acl.message())\n"
        "print(sync(), launch(), sync(), malloc())\n",
    )
    assert lines[0] == "0 0 0 507051"
    assert "launch 2" in lines[1]
    assert lines[2] == "0 0 0 0"


@pytest.mark.parametrize(
    "code", [107022, 507000, 507001, 507010, 507013, 507015, 507034, 507044, 507049, 507057, 507901, 507904]
)
def test_an_error_that_the_device_does_not_survive(run: Fails, code: int) -> None:
    lines = run(
        [{"kind": "launch_error", "at": 1, "code": code}],
        "status = ctypes.c_int(-1)\n"
        "other = acl.create('aclrtCreateStream')\n"
        "event = acl.create('aclrtCreateEvent')\n"
        "acl.call('aclrtRecordEvent', event, stream)\n"
        "print(launch(), sync())\n"
        "print(acl.message())\n"
        "print(sync(), sync(on=other), acl.aclrtSynchronizeDevice(), malloc(), copy(),\n"
        "      acl.aclrtMemset(device, 8, 0, 8), acl.aclrtStreamQuery(other, ctypes.byref(status)),\n"
        "      acl.aclrtCreateStream(ctypes.byref(out)), acl.aclrtMemcpyAsync(device, 8, pinned, 8, 1, other),\n"
        "      acl.aclrtRecordEvent(event, other), acl.aclrtSynchronizeEvent(event))\n"
        "print(acl.message())\n"
        "print(launch(other), acl.aclrtGetLastError(0))\n"
        "print(acl.aclrtQueryDeviceStatus(0, ctypes.byref(status)), status.value)\n"
        "print(acl.aclrtDestroyStream(other), acl.aclrtFree(device), acl.aclrtSetDevice(1), malloc())\n"
        "print(acl.aclrtSetDevice(0), malloc(), acl.aclrtResetDevice(0), malloc())\n"
        "print(acl.aclrtResetDeviceForce(0), acl.aclrtResetDeviceForce(0), malloc())\n"
        "print(acl.aclrtSetDevice(0), malloc(), sync(on=None))\n"
        "device = out.value\n"
        "print(acl.aclrtSynchronizeStream(stream), acl.aclrtMemset(device, 8, 0, 8))\n",
    )
    assert lines[0] == f"0 {code}"
    assert "launch 1" in lines[1]
    assert lines[2].split() == [str(code)] * 11
    assert "launch 1" in lines[3]
    assert "aclrtResetDeviceForce" in lines[3]
    assert lines[4] == f"361001 {code}"  # phase 2 has one code for all that the runtime says
    assert lines[5] == "0 1"
    assert lines[6:] == ["0 0 0 0", f"0 {code} 0 {code}", "0 107002 107002", "0 0 0", "107017 0"]


def test_finalize_ends_a_loss(run: Fails) -> None:
    lines = run(
        [{"kind": "launch_error", "at": 1}],
        "print(launch(), sync(), sync())\n"
        "print(acl.aclFinalize(), acl.aclInit(None), acl.aclrtSetDevice(0), malloc(), sync(on=None))\n",
    )
    assert lines == ["0 507015 507015", "0 0 0 0 0"]


def test_a_hang_of_some_time(run: Fails) -> None:
    program = "begin = time.monotonic()\nprint(launch(), sync(), time.monotonic() - begin > 0.09, launch(), sync())\n"
    assert run([{"kind": "hang", "at": 1, "duration_ms": 100}], program) == ["0 0 True 0 0"]


def test_a_hang_ends_with_its_stream(run: Fails) -> None:
    program = (
        "event = acl.create('aclrtCreateEvent')\n"
        "print(launch(), acl.aclrtRecordEvent(event, stream), sync(0), sync(20), sync(on=None))\n"
        "print(acl.aclrtSynchronizeEventWithTimeout(event, 20), acl.aclrtSynchronizeDeviceWithTimeout(20))\n"
        "print(acl.aclrtDestroyStreamForce(stream), acl.aclrtSynchronizeEvent(event), acl.aclrtSynchronizeDevice())\n"
    )
    assert run([{"kind": "hang", "at": 1}], program) == ["0 0 507046 507046 0", "507047 507046", "0 0 0"]


def test_finalize_and_a_forced_reset_end_a_hang_and_the_wait_for_it(run: Fails) -> None:
    program = (
        "def wait():\n"
        "    acl.call('aclrtSetDevice', 0)\n"
        "    acl.aclrtSynchronizeStream(None)\n"
        "for end in (lambda: acl.aclrtResetDeviceForce(0), acl.aclFinalize):\n"
        "    acl.call('aclrtSetDevice', 0)\n"
        "    codes = [launch(None), sync(20, None)]\n"
        "    waiter = threading.Thread(target=wait)\n"
        "    waiter.start()\n"
        "    time.sleep(0.05)  # most of the time it waits by then; the codes are the same if it does not\n"
        "    codes.append(end())\n"
        "    waiter.join()\n"
        "    print(*codes)\n"
    )
    assert run([{"kind": "hang", "at": 1, "count": 2}], program) == ["0 507046 0", "0 507046 0"]


def test_a_loss_ends_a_hang(run: Fails) -> None:
    faults = [{"kind": "hang", "at": 1}, {"kind": "launch_error", "at": 2}]
    assert run(faults, "print(launch(), sync(20), launch(None), sync(on=None), sync(20))\n") == [
        "0 507046 0 507015 507015"
    ]


def test_slow_copies(run: Fails) -> None:
    """What is not slow takes microseconds, and a fraction of the delay on a machine that is busy with other work."""
    lines = run(
        [{"kind": "slow_copy", "at": 2, "count": 3, "duration_ms": 500}],
        "def copy_async():\n"
        "    return acl.aclrtMemcpyAsync(device, 256, pinned, 256, 1, stream)\n"
        "def copy_pageable():\n"
        "    return acl.aclrtMemcpyAsync(host, 256, device, 256, 2, stream)\n"
        "for calls in ([copy], [copy], [copy_async, sync], [copy_pageable], [copy]):\n"
        "    begin = time.monotonic()\n"
        "    print(*[call() for call in calls], time.monotonic() - begin > 0.49)\n",
    )
    assert lines == ["0 False", "0 True", "0 0 True", "0 True", "0 False"]


def test_copy_errors(run: Fails) -> None:
    lines = run(
        [{"kind": "copy_error", "at": 2, "count": 3, "code": 507051}, {"kind": "copy_error", "at": 6}],
        "print(copy(), copy(), acl.message())\n"
        "print(acl.aclrtMemcpyAsync(device, 256, pinned, 256, 1, stream), sync(), sync())\n"
        "print(acl.aclrtMemcpyAsync(host, 256, device, 256, 2, stream), sync(), copy(), sync())\n"
        "print(copy(), copy(), sync())\n",
    )
    assert lines[0].startswith("0 507051 ")
    assert "copy 2" in lines[0]
    assert lines[1:] == ["0 507051 0", "507051 0 0 0", "507013 507013 507013"]


def test_streams_that_continue_after_a_failure(run: Fails) -> None:
    """The stream's own error comes once, other streams and later launches go on; the device's own errors stay."""
    faults = [{"kind": "launch_error", "at": 1, "code": 507015}, {"kind": "launch_error", "at": 3, "code": 507053}]
    program = "print(launch(), launch(), sync(), sync(), copy())\nprint(launch(), sync(), sync(), copy())\n"
    assert run(faults, program, failure_mode="continue") == ["0 0 507015 0 0", "0 507053 507053 507053"]


def test_one_stream_that_stops_after_a_failure_stops_the_device(run: Fails) -> None:
    program = (
        "print(acl.aclrtSetStreamFailureMode(stream, 2), acl.aclrtSetStreamFailureMode(stream, 0))\n"
        "print(acl.aclrtSetStreamFailureMode(stream, 1), launch(), sync(), sync(), copy())\n"
    )
    faults = [{"kind": "launch_error", "at": 1, "code": 507015}]
    assert run(faults, program, failure_mode="continue") == ["107000 0", "0 0 507015 507015 507015"]


def test_a_kernel_that_the_device_ends(run: Fails) -> None:
    """As a card does after its own time limit, or with a code that hides the reason."""
    faults = [
        {"kind": "hang", "at": 1, "duration_ms": 50, "code": 507046},
        {"kind": "hang", "at": 2, "duration_ms": 50, "code": 507014},
    ]
    assert run(faults, "print(launch(), sync(), sync(), launch(), sync(), copy())\n") == ["0 507046 0 0 507014 507014"]


def test_work_that_is_dropped_does_not_count_as_done(run: Fails) -> None:
    program = (
        "codes = []\n"
        "def wait():\n"
        "    acl.call('aclrtSetDevice', 0)\n"
        "    codes.append(sync())\n"
        "print(launch(), launch())\n"
        "waiter = threading.Thread(target=wait)\n"
        "waiter.start()\n"
        "time.sleep(0.05)  # most of the time it waits by then; the codes are the same if it does not\n"
        "print(acl.aclrtDestroyStreamForce(stream))\n"
        "waiter.join()\n"
        "print(*codes)\n"
    )
    assert run([{"kind": "hang", "at": 1}], program) == ["0 0", "0", "107017"]


def test_destroying_by_force_ends_the_wait_for_an_event(run: Fails) -> None:
    program = (
        "waiting, event = acl.create('aclrtCreateStream'), acl.create('aclrtCreateEvent')\n"
        "print(launch(), acl.aclrtRecordEvent(event, stream), acl.aclrtStreamWaitEvent(waiting, event))\n"
        "print(sync(20, waiting), acl.aclrtDestroyStreamForce(waiting), acl.aclrtDestroyStreamForce(stream))\n"
    )
    assert run([{"kind": "hang", "at": 1}], program) == ["0 0 0", "507046 0 0"]


def test_a_device_that_cannot_be_set(run: Fails) -> None:
    program = "print(acl.aclrtSetDevice(0), acl.says('fault plan'), acl.aclrtSetDevice(0))\n"
    assert run([{"kind": "set_device_error", "at": 2}], program) == ["507033 True 0"]


HANGING = {
    "copy": ({"kind": "hang_copy", "at": 1}, "copy()"),
    "copy_on_a_stream": (
        {"kind": "hang_copy", "at": 1},
        "acl.aclrtMemcpyAsync(device, 256, pinned, 256, 1, stream)",
    ),
    "allocation": ({"kind": "hang_allocation", "at": 3}, "malloc()"),
    "pinned_allocation": ({"kind": "hang_allocation", "at": 3}, "acl.aclrtMallocHost(ctypes.byref(out), 8)"),
    "launch": ({"kind": "hang_launch", "at": 1}, "launch()"),
    "set_device": ({"kind": "hang_set_device", "at": 2}, "acl.aclrtSetDevice(0)"),
    "destroy_stream": (
        {"kind": "hang_destroy_stream", "at": 1},
        "acl.aclrtDestroyStream(acl.create('aclrtCreateStream'))",
    ),
}
"""Faults, and the call that hangs in the library itself."""


@pytest.mark.parametrize(("fault", "call"), HANGING.values(), ids=HANGING)
def test_a_call_that_returns_late(run: Fails, fault: dict[str, object], call: str) -> None:
    program = f"begin = time.monotonic()\nprint({call}, time.monotonic() - begin > 0.09)\nprint({call}, sync())\n"
    assert run([fault | {"duration_ms": 100}], program) == ["0 True", "0 0"]


@pytest.mark.parametrize(("fault", "call"), HANGING.values(), ids=HANGING)
def test_a_call_that_never_returns_holds_up_no_other(run: Fails, fault: dict[str, object], call: str) -> None:
    """The first of two threads hangs for ever, so once the other one has returned, the hanging call is under way."""
    program = (
        "returned = threading.Semaphore(0)\n"
        "def use():\n"
        "    acl.call('aclrtSetDevice', 0)\n"
        f"    {call}\n"
        "    returned.release()\n"
        "for _ in range(2):\n"
        "    threading.Thread(target=use, daemon=True).start()\n"
        "returned.acquire()\n"
        f"print(copy(), malloc(), launch(), sync(), {call})\n"
        "print(returned.acquire(timeout=0.05))\n"
    )
    assert run([fault], program) == ["0 0 0 0 0", "False"]
