"""The fault plan of the configuration: each fault at its number, and its effect on later calls.

That faults which others use do what they say is shown by tests/native and tests/e2e: late copies and launches, copies
that fail, crashes, memory that runs out.
"""

from collections.abc import Callable

import pytest

RUN = """
import time
import numpy as np
NAME = "aclnnAdaptiveAvgPool2dBackward"
SILU, TANH = "aclnnSiluBackward", "aclnnTanhBackward"
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

def stop(on=stream):
    acl.call('aclrtSetStreamFailureMode', on, 1)

def in_thread(work):
    def run():
        acl.call('aclrtSetDevice', 0)
        work()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread

def call(name=SILU, dtype="float32", view=lambda array: array[::2]):
    '''Returns the codes of phase 1, phase 2 and the wait, if they come; sets `storage` and `output`, its view.'''
    global output, storage
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    ones, before = np.ones((2, 5), dtype), np.full((4, 5), 7, dtype)
    with acl.tensor(ones) as grad, acl.tensor(ones) as other, acl.tensor(before, view(before)) as result:
        handles = [each.handle for each in (grad, other, result)]
        codes = [getattr(acl, name + "GetWorkspaceSize")(*handles, ctypes.byref(size), ctypes.byref(executor))]
        if codes[-1] == 0:
            with acl.buffer(max(size.value, 1)) as workspace:
                codes.append(getattr(acl, name)(workspace, size.value, executor, None))
                codes.append(acl.aclrtSynchronizeStream(None))
        storage = result.read_storage()
        output = view(storage)
    return codes
"""

Fails = Callable[..., list[str]]


@pytest.fixture
def run(run_program: Callable[..., list[str]]) -> Fails:
    def run(faults: list[dict[str, object]], program: str, **settings: object) -> list[str]:
        return run_program(RUN + program, {"faults": faults, "devices": 2, **settings})

    return run


def fault(kind: str, at: int = 1, **more: object) -> dict[str, object]:
    return {"kind": kind, "at": at, **more}


# The faults, the program, and its output.
CASES: dict[str, tuple[list[dict[str, object]], str, str]] = {
    "outputs of nothing but NaN, and nothing beside the view": (
        [fault("nan_output")],
        "for _ in range(2): print(*call(), np.isnan(output).all(), np.isnan(storage).sum())",
        "0 0 0 True 10\n0 0 0 False 0",
    ),
    "outputs of which half is written": (
        [fault("half_output")],
        "sigmoid = 1 / (1 + np.exp(-1))\n"
        "for _ in range(2):\n"
        "    print(*call(), np.isclose(output, sigmoid * (2 - sigmoid)).astype(int).ravel(), (storage == 7).sum())",
        "0 0 0 [1 1 1 1 1 0 0 0 0 0] 15\n0 0 0 [1 1 1 1 1 1 1 1 1 1] 10",
    ),
    "allocations that are refused for their arguments do not count": (
        [fault("out_of_memory", 3), fault("out_of_memory", 5, count=2)],
        "acl.aclrtMalloc(ctypes.byref(out), 0, 0)\n"
        "print(malloc(), acl.says('allocation 3'))\n"
        "print(malloc(), malloc(), acl.aclrtMallocHost(ctypes.byref(out), 8), malloc(), launch(), sync(), copy())",
        "207001 True\n0 207001 207001 0 0 0 0",
    ),
    "a phase 1 that is refused for its arguments does not count": (
        [fault("phase1_error")],
        "print(*call(dtype='int32'), acl.says('fault plan'))\nprint(*call(), acl.says('fault plan'))",
        "161002 False\n161002 True",
    ),
    "the first of several wins, and the others have counted that call": (
        [
            fault("phase2_error", 3, code=561000),
            fault("phase2_error", 2, operator="aclnnTanhBackward", count=2, code=561002),
        ],
        "for name in (TANH, SILU, TANH, TANH, TANH): print(*call(name)[1:2])",
        "0\n0\n561000\n561002\n0",
    ),
    "an error that the device survives": (
        [fault("launch_error", 2, code=507051)],
        "print(launch(), launch(), launch(), sync(), acl.says('launch 2'))\nprint(sync(), launch(), sync(), malloc())",
        "0 0 0 507051 True\n0 0 0 0",
    ),
    "finalizing ends a loss": (
        [fault("launch_error")],
        "stop()\nprint(launch(), sync(), sync())\n"
        "print(acl.aclFinalize(), acl.aclInit(None), acl.aclrtSetDevice(0), malloc(), sync(on=None))",
        "0 507015 507015\n0 0 0 0 0",
    ),
    "a loss ends a hang": (
        [fault("hang"), fault("launch_error", 2)],
        "stop()\nprint(launch(), sync(20), launch(None), sync(on=None), sync(20))",
        "0 507046 0 507015 507015",
    ),
    "a hang ends with its stream": (
        [fault("hang")],
        "event = acl.create('aclrtCreateEvent')\n"
        "print(launch(), acl.aclrtRecordEvent(event, stream), sync(0), sync(20), sync(on=None))\n"
        "print(acl.aclrtSynchronizeEventWithTimeout(event, 20), acl.aclrtSynchronizeDeviceWithTimeout(20))\n"
        "print(acl.aclrtDestroyStreamForce(stream), acl.aclrtSynchronizeEvent(event), acl.aclrtSynchronizeDevice())",
        "0 0 507046 507046 0\n507047 507046\n0 0 0",
    ),
    "finalizing and a forced reset end a hang and the wait for it": (
        [fault("hang", count=2)],
        "for end in (lambda: acl.aclrtResetDeviceForce(0), acl.aclFinalize):\n"
        "    acl.call('aclrtSetDevice', 0)\n"
        "    codes = [launch(None), sync(20, None)]\n"
        "    waiter = in_thread(lambda: acl.aclrtSynchronizeStream(None))\n"
        "    time.sleep(0.05)  # most of the time it waits by then; the codes are the same if it does not\n"
        "    codes.append(end())\n"
        "    waiter.join()\n"
        "    print(*codes)",
        "0 507046 0\n0 507046 0",
    ),
    "work that is dropped does not count as done": (
        [fault("hang")],
        "codes = []\n"
        "print(launch(), launch())\n"
        "waiter = in_thread(lambda: codes.append(sync()))\n"
        "time.sleep(0.05)  # most of the time it waits by then; the codes are the same if it does not\n"
        "print(acl.aclrtDestroyStreamForce(stream))\n"
        "waiter.join()\n"
        "print(*codes)",
        "0 0\n0\n107017",
    ),
    "destroying by force ends the wait for an event": (
        [fault("hang")],
        "waiting, event = acl.create('aclrtCreateStream'), acl.create('aclrtCreateEvent')\n"
        "print(launch(), acl.aclrtRecordEvent(event, stream), acl.aclrtStreamWaitEvent(waiting, event))\n"
        "print(sync(20, waiting), acl.aclrtDestroyStreamForce(waiting), acl.aclrtDestroyStreamForce(stream))",
        "0 0 0\n507046 0 0",
    ),
    # As a card does after its own time limit, or with a code that hides the reason.
    "a kernel that the device ends": (
        [fault("hang", duration_ms=50, code=507046), fault("hang", 2, duration_ms=50, code=507014)],
        "print(launch(), sync(), sync(), launch(), sync(), copy())",
        "0 507046 0 0 507014 0",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_faults(run: Fails, case: str) -> None:
    faults, program, output = CASES[case]
    assert run(faults, program) == output.splitlines()


@pytest.mark.parametrize(
    ("kind", "codes"),
    [("phase1_error", "161002"), ("phase2_error", "0 561103 0"), ("launch_error", "0 0 507051")],
)
def test_a_fault_counts_the_calls_of_its_operator_and_type(run: Fails, kind: str, codes: str) -> None:
    code = {"code": 507051} if kind == "launch_error" else {}
    lines = run(
        [fault(kind, 2, operator="aclnnSiluBackward", data_type="FLOAT16", count=2, **code)],
        "for name, dtype in 3 * [(TANH, 'float16'), (SILU, 'float32'), (SILU, 'float16')]:\n"
        "    print(*call(name, dtype))\n"
        "print(*call(dtype='float16'))",
    )
    assert lines == ["0 0 0"] * 5 + [codes] + ["0 0 0"] * 2 + [codes] + ["0 0 0"]


@pytest.mark.parametrize("kind", ["phase1_error", "phase2_error"])
def test_a_refused_call_leaves_output_and_device_as_they_were(run: Fails, kind: str) -> None:
    lines = run(
        [fault(kind)],
        "call()\n"
        "text = acl.message()\n"
        "print('fault plan' in text, SILU in text, acl.aclrtGetLastError(0), (output == 7).all())\n"
        "print(*call(), (output == 7).any())\n",
    )
    assert lines == ["True True 0 True", "0 0 0 False"]


def test_faults_may_begin_after_some_launches(run: Fails) -> None:
    # Copies of the last of these do not count either: the plan begins with an allocation or a launch.
    lines = run(
        [fault("out_of_memory", 2), fault("copy_error", code=507051)],
        "print(malloc(), launch(), sync(), copy(), malloc(), launch(), sync(), copy())\n"
        "print(malloc(), malloc(), copy(), malloc(), copy())\n",
        faults_after_launches=2,
    )
    assert lines == ["0 0 0 0 0 0 0 0", "0 207001 507051 0 0"]
    refusals = [fault("phase1_error"), fault("phase2_error")]
    program = "for _ in range(3): print(*call())"
    assert run(refusals, program, faults_after_launches=1) == ["0 0 0", "161002", "0 561103 0"]


@pytest.mark.parametrize(
    ("code", "stops"),
    [
        *((code, False) for code in (107022, 507010, 507057, 507901, 507904)),
        *((code, True) for code in (507000, 507015, 507051, 507998, 207018, 507057)),
    ],
)
def test_an_error_that_the_device_does_not_survive(run: Fails, code: int, stops: bool) -> None:
    """One of the device itself, or the first of a context with a stream that stops at it."""
    lines = run(
        [{"kind": "launch_error", "at": 1, "code": code}],
        "status = ctypes.c_int(-1)\n"
        "other = acl.create('aclrtCreateStream')\n"
        "event = acl.create('aclrtCreateEvent')\n"
        "acl.call('aclrtRecordEvent', event, stream)\n"
        f"if {stops}: stop()\n"
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


def test_streams_continue_after_a_failure(run: Fails) -> None:
    """The stream's own error comes once, and the tasks behind it run; the device's own errors stay."""
    faults = [fault("launch_error", code=507015), fault("launch_error", 3, code=507053)]
    program = (
        "images = np.frombuffer((ctypes.c_uint8 * 64).from_address(device + 64), np.float32)\n"
        "images[:] = 7\n"
        "print(launch(), launch(), sync(), (images != 7).all(), sync(), copy())\n"
        "print(launch(), sync(), sync(), copy())\n"
    )
    assert run(faults, program) == ["0 0 507015 True 0 0", "0 507053 507053 507053"]


@pytest.mark.parametrize("code", [507015, 507051])
def test_one_stream_that_stops_after_a_failure_stops_all(run: Fails, code: int) -> None:
    """The error stays, whichever it is, and nothing that comes later runs, on any stream."""
    program = (
        "images = np.frombuffer((ctypes.c_uint8 * 64).from_address(device + 64), np.float32)\n"
        "images[:] = 7\n"
        "stop()\n"
        "print(launch(None), launch(None), launch(None), sync(on=None), sync(on=None), sync(), (images == 7).all())\n"
        "print(launch(), acl.aclrtGetLastError(0), acl.aclrtMemcpyAsync(device, 8, pinned, 8, 1, stream))\n"
        "print(acl.aclrtMemsetAsync(device, 8, 0, 8, stream), copy())\n"
    )
    first = [{"kind": "hang", "at": 1, "duration_ms": 50, "code": code}]
    assert run(first, program) == [f"0 0 0 {code} {code} {code} True", f"361001 {code} {code}", f"{code} {code}"]


def test_a_stream_that_stops_at_failures_stays_so(run: Fails) -> None:
    program = (
        "def mode(number, on=stream): return acl.aclrtSetStreamFailureMode(on, number)\n"
        "print(mode(2), mode(0), mode(0), mode(1), mode(1), mode(0), mode(0, None), mode(1, None), mode(0, None))\n"
    )
    assert run([], program) == ["107000 0 0 0 0 207000 0 0 207000"]


def test_streams_may_have_no_failure_mode(run: Fails) -> None:
    program = "print(*(acl.aclrtSetStreamFailureMode(stream, mode) for mode in (0, 1, 2)), launch(), sync(), sync())"
    assert run([fault("launch_error")], program, stream_failure_mode=False) == ["207000 207000 107000 0 507015 0"]


HANGING = {
    "copy": (fault("hang_copy"), "copy()"),
    "copy_on_a_stream": (
        fault("hang_copy"),
        "acl.aclrtMemcpyAsync(device, 256, pinned, 256, 1, stream)",
    ),
    "allocation": (fault("hang_allocation", 3), "malloc()"),
    "pinned_allocation": (fault("hang_allocation", 3), "acl.aclrtMallocHost(ctypes.byref(out), 8)"),
    "launch": (fault("hang_launch"), "launch()"),
    "set_device": (fault("hang_set_device", 2), "acl.aclrtSetDevice(0)"),
    "destroy_stream": (
        fault("hang_destroy_stream"),
        "acl.aclrtDestroyStream(acl.create('aclrtCreateStream'))",
    ),
}
"""Faults, and the call that hangs in the library itself."""


@pytest.mark.parametrize(("late", "call"), HANGING.values(), ids=HANGING)
def test_a_call_that_never_returns_holds_up_no_other(run: Fails, late: dict[str, object], call: str) -> None:
    """The first of two threads hangs for ever, so once the other one has returned, the hanging call is under way."""
    program = (
        "returned = threading.Semaphore(0)\n"
        "def use():\n"
        f"    {call}\n"
        "    returned.release()\n"
        "for _ in range(2):\n"
        "    in_thread(use)\n"
        "returned.acquire()\n"
        f"print(copy(), malloc(), launch(), sync(), {call})\n"
        "print(returned.acquire(timeout=0.05))\n"
    )
    assert run([late], program) == ["0 0 0 0 0", "False"]
