"""Devices, contexts, options and the two ways to ask for an error."""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tools.abi.acl import Library

INVALID_PARAM, RT_PARAM_INVALID, RT_INVALID_DEVICEID, RT_CONTEXT_NULL = 100000, 107000, 107001, 107002
RT_STREAM_CONTEXT, RT_INVALID_HANDLE, RT_SYSPARAMOPT_NOT_SET = 107003, 107017, 107021


def in_thread(function: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function).result()


def test_device_numbers(acl: Library) -> None:
    number = ctypes.c_int32(-1)
    assert acl.aclrtGetDevice(ctypes.byref(number)) == 0
    assert number.value == 0
    assert acl.aclrtSetDevice(-1) == RT_INVALID_DEVICEID
    assert acl.aclrtSetDevice(1000) == RT_INVALID_DEVICEID
    assert acl.says("1000")
    assert acl.aclrtGetDevice(None) == INVALID_PARAM


def test_device_status_and_versions(acl: Library) -> None:
    status, mode = ctypes.c_int(7), ctypes.c_int(7)
    major, minor, patch = (ctypes.c_int32() for _ in range(3))
    assert acl.aclrtQueryDeviceStatus(0, ctypes.byref(status)) == 0
    assert status.value == 0
    assert acl.aclrtQueryDeviceStatus(1000, ctypes.byref(status)) == RT_INVALID_DEVICEID
    assert acl.aclrtGetRunMode(ctypes.byref(mode)) == 0
    assert mode.value == 1
    assert acl.aclrtGetVersion(ctypes.byref(major), ctypes.byref(minor), ctypes.byref(patch)) == 0
    assert major.value == 1
    assert acl.aclrtGetSocName().startswith(b"Ascend")


def test_a_thread_without_a_device_has_no_context(acl: Library) -> None:
    def codes() -> list[int]:
        out = ctypes.c_void_p()
        return [
            acl.aclrtGetDevice(ctypes.byref(ctypes.c_int32())),
            acl.aclrtMalloc(ctypes.byref(out), 8, 0),
            acl.aclrtCreateStream(ctypes.byref(out)),
            acl.aclrtSynchronizeStream(None),
            acl.aclrtGetCurrentContext(ctypes.byref(out)),
            acl.aclrtSynchronizeDevice(),
        ]

    assert set(in_thread(codes)) == {RT_CONTEXT_NULL}


def test_the_default_context_is_shared_by_threads(acl: Library) -> None:
    def other() -> int | None:
        acl.call("aclrtSetDevice", 0)
        context = acl.create("aclrtGetCurrentContext").value
        acl.call("aclrtResetDevice", 0)
        return context

    assert in_thread(other) == acl.create("aclrtGetCurrentContext").value
    assert acl.aclrtSynchronizeStream(None) == 0


@pytest.mark.needs("nulls")
def test_reset_ends_the_default_context_with_the_last_use(run_program: Callable[..., list[str]]) -> None:
    # In its own process, where nothing else uses the device.
    assert run_program(
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "stream = acl.create('aclrtCreateStream')\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "print(acl.aclrtResetDevice(0), acl.aclrtSynchronizeStream(stream))\n"
        "print(acl.aclrtResetDevice(0), acl.aclrtSynchronizeStream(stream), acl.aclrtResetDevice(0))\n"
        "print(acl.aclrtSetDevice(0), acl.aclrtSynchronizeStream(stream))\n"
    ) == ["0 0", f"0 {RT_CONTEXT_NULL} {RT_CONTEXT_NULL}", f"0 {RT_INVALID_HANDLE}"]


@pytest.mark.needs("nulls")
def test_contexts(acl: Library) -> None:
    default = acl.create("aclrtGetCurrentContext")
    assert acl.aclrtDestroyContext(default) == RT_PARAM_INVALID
    with acl.stream() as stream:
        context = acl.create("aclrtCreateContext", 0)
        assert acl.create("aclrtGetCurrentContext").value == context.value
        assert acl.aclrtSynchronizeStream(stream) == RT_STREAM_CONTEXT
        assert acl.aclrtDestroyStream(stream) == RT_STREAM_CONTEXT
        own = acl.create("aclrtCreateStream")
        assert acl.aclrtSetCurrentContext(default) == 0
        assert acl.aclrtSynchronizeStream(stream) == 0
        assert acl.aclrtDestroyContext(context) == 0
        assert acl.aclrtDestroyContext(context) == RT_INVALID_HANDLE
        assert acl.aclrtSetCurrentContext(context) == RT_INVALID_HANDLE
        assert acl.aclrtSynchronizeStream(own) == RT_INVALID_HANDLE
    assert acl.aclrtCreateContext(ctypes.byref(context), 1000) == RT_INVALID_DEVICEID


def test_options_belong_to_the_context(acl: Library) -> None:
    def option() -> int:
        value = ctypes.c_int64(-1)
        acl.call("aclrtCtxGetSysParamOpt", 0, ctypes.byref(value))
        return value.value

    default = acl.create("aclrtGetCurrentContext")
    acl.call("aclrtCtxSetSysParamOpt", 0, 1)
    assert option() == 1
    context = acl.create("aclrtCreateContext", 0)
    assert acl.aclrtCtxGetSysParamOpt(0, ctypes.byref(ctypes.c_int64())) == RT_SYSPARAMOPT_NOT_SET
    acl.call("aclrtSetCurrentContext", default)
    assert option() == 1
    acl.call("aclrtCtxSetSysParamOpt", 0, 0)
    acl.call("aclrtDestroyContext", context)
    assert acl.aclrtCtxGetSysParamOpt(0, None) == INVALID_PARAM


def test_options_have_ranges(acl: Library) -> None:
    value = ctypes.c_int64()
    for option, largest in ((0, 3), (1, 1), (2, 1)):
        acl.call("aclrtCtxSetSysParamOpt", option, largest)
        acl.call("aclrtCtxGetSysParamOpt", option, ctypes.byref(value))
        assert value.value == largest
        assert acl.aclrtCtxSetSysParamOpt(option, largest + 1) == RT_PARAM_INVALID
        assert acl.aclrtCtxSetSysParamOpt(option, -1) == RT_PARAM_INVALID
        acl.call("aclrtCtxSetSysParamOpt", option, 0)
    for unknown in (-1, 3, 99):  # 3 is an option of the process alone
        assert acl.aclrtCtxSetSysParamOpt(unknown, 1) == INVALID_PARAM
        assert acl.aclrtCtxGetSysParamOpt(unknown, ctypes.byref(value)) == INVALID_PARAM


def test_options_of_the_process(run_program: Callable[..., list[str]]) -> None:
    assert run_program(
        "value = ctypes.c_int64(-1)\n"
        "def get(option):\n"
        "    return f'{acl.aclrtGetSysParamOpt(option, ctypes.byref(value))} {value.value}'\n"
        "print(get(3), acl.aclrtSetSysParamOpt(3, 1), get(3), acl.aclrtSetSysParamOpt(3, 2))\n"
        "print(acl.aclrtSetSysParamOpt(4, 0), acl.aclrtGetSysParamOpt(0, None))\n"
    ) == ["0 0 0 0 1 107000", "100000 100000"]


def test_primary_context_is_active_while_the_device_is_in_use(run_program: Callable[..., list[str]]) -> None:
    assert run_program(
        "active = ctypes.c_int32(-1)\n"
        "def state(device):\n"
        "    return f'{acl.aclrtGetPrimaryCtxState(device, None, ctypes.byref(active))} {active.value}'\n"
        "acl.call('aclInit', None)\n"
        "print(state(0), acl.aclrtSetDevice(0), state(0), acl.aclrtResetDevice(0), state(0), state(1000)[:6])\n"
    ) == ["0 0 0 0 1 0 0 0 107001"]


@pytest.mark.needs("texts")
def test_messages_and_last_errors_are_per_thread_and_cleared_by_reading(acl: Library) -> None:
    acl.aclrtGetLastError(0)
    assert acl.aclrtSetDevice(-1) == RT_INVALID_DEVICEID
    assert in_thread(lambda: (acl.message(), acl.aclrtPeekAtLastError(0))) == ("", 0)
    message = acl.message()
    assert "aclrtSetDevice" in message
    assert "-1" in message
    assert acl.message() == ""
    assert acl.aclrtPeekAtLastError(0) == RT_INVALID_DEVICEID
    assert acl.aclrtGetLastError(0) == RT_INVALID_DEVICEID
    assert acl.aclrtPeekAtLastError(0) == 0
    assert acl.aclrtGetLastError(5) == INVALID_PARAM
    assert acl.aclrtPeekAtLastError(5) == INVALID_PARAM


def test_last_error_keeps_only_what_cann_s_runtime_keeps(acl: Library) -> None:
    """torch_npu looks at it after every call, and takes it for the call's own."""

    def codes() -> list[int]:
        number, out = ctypes.c_int32(), ctypes.c_void_p()
        failures = [
            acl.aclrtGetDevice(ctypes.byref(number)),
            acl.aclrtGetCurrentContext(ctypes.byref(out)),
            acl.aclrtMalloc(None, 8, 0),
            acl.aclInit(None),
        ]
        return [
            *failures,
            acl.aclrtPeekAtLastError(0),
            acl.aclrtMalloc(ctypes.byref(out), 8, 0),
            acl.aclrtGetLastError(0),
        ]

    assert in_thread(codes) == [107002, 107002, 100000, 100002, 0, 107002, 107002]
    context = acl.create("aclrtCreateContext", 0)
    acl.aclrtGetLastError(0)
    assert acl.aclrtCtxGetSysParamOpt(0, ctypes.byref(ctypes.c_int64())) == RT_SYSPARAMOPT_NOT_SET
    assert acl.aclrtPeekAtLastError(0) == 0
    acl.call("aclrtDestroyContext", context)


@pytest.mark.needs("settings")
def test_devices_are_peers_of_each_other(run_program: Callable[..., list[str]]) -> None:
    program = (
        "can = ctypes.c_int32(-1)\n"
        "def ask(*devices):\n    return acl.aclrtDeviceCanAccessPeer(ctypes.byref(can), *devices)\n"
        "print(acl.aclInit(None), acl.aclrtSetDevice(0), ask(0, 1), can.value, ask(0, 0), ask(0, 2), ask(-1, 0))\n"
        "print(acl.aclrtDeviceCanAccessPeer(None, 0, 1))\n"
        "enable = acl.aclrtDeviceEnablePeerAccess\n"
        "print(enable(1, 0), enable(1, 0), enable(0, 0), enable(2, 0), enable(1, 1))\n"
    )
    lines = run_program(program, {"devices": 2})
    assert lines == ["0 0 0 1 100000 107001 107001", "100000", "0 0 100000 107001 200006"]
