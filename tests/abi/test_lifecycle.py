"""aclInit, aclFinalize and the configuration, each in a process of its own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., list[str]]


def config_file(folder: Path, text: str) -> str:
    path = folder / "acl.json"
    path.write_text(text)
    return str(path)


def test_init_and_finalize_repeat(run_program: Run) -> None:
    assert run_program(
        "print(acl.aclInit(None), acl.aclInit(None), acl.aclFinalize(), acl.aclFinalize())\n"
        "print(acl.aclInit(None), acl.aclrtSetDevice(0), acl.aclFinalize())\n"
    ) == ["0 100002 0 100037", "0 0 0"]


def test_the_last_of_several_users_releases_everything(run_program: Run) -> None:
    lines = run_program(
        "left = ctypes.c_uint64(9)\n"
        "def release():\n"
        "    return f'{acl.aclFinalizeReference(ctypes.byref(left))} {left.value}'\n"
        "print(acl.aclInit(None), acl.aclInit(None), acl.aclInit(None))\n"
        "print(release(), acl.aclrtSetDevice(0), release(), acl.aclrtSetDevice(0))\n"
        "print(acl.aclFinalizeReference(None), acl.aclrtSetDevice(0), acl.aclFinalizeReference(None))\n"
    )
    assert lines == ["0 100002 100002", "0 2 0 0 1 0", "0 0 100037"]


@pytest.mark.needs("texts")
def test_calls_before_init_are_refused(run_program: Run) -> None:
    lines = run_program(
        "out = ctypes.c_void_p()\n"
        "print(acl.aclFinalize(), acl.aclrtMalloc(ctypes.byref(out), 8, 0), acl.aclrtSynchronizeDevice())\n"
        "print(acl.message())\n"
        "size, executor = ctypes.c_uint64(), ctypes.byref(ctypes.c_void_p())\n"
        "with acl.describe((1, 2, 2)) as tensor:\n"
        "    phase = acl.aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize\n"
        "    print(phase(tensor, tensor, tensor, ctypes.byref(size), executor), acl.message())\n"
    )
    assert lines[0] == "100037 100001 100001"
    assert "aclInit" in lines[1]
    assert lines[2].startswith("361001")
    assert "aclInit" in lines[2]


def test_devices_are_found_and_set_before_init(run_program: Run) -> None:
    """CANN's runtime starts with the first call that needs it; aclInit then keeps the device that is in use."""
    assert run_program(
        "count, number, out = ctypes.c_uint32(), ctypes.c_int32(), ctypes.c_void_p()\n"
        "print(acl.aclrtGetDevice(ctypes.byref(number)), acl.aclrtPeekAtLastError(0), acl.aclrtGetSocName().decode())\n"
        "print(acl.aclrtGetDeviceCount(ctypes.byref(count)), count.value, acl.aclrtSetDevice(0))\n"
        "print(acl.aclrtMalloc(ctypes.byref(out), 8, 0), acl.aclInit(None), acl.aclrtFree(out), acl.aclFinalize())\n"
    ) == ["107002 0 Ascend910B1", "0 1 0", "0 0 0 0"]


def test_init_keeps_what_was_made_and_set_before_it(run_program: Run) -> None:
    """Pinned memory outlasts its device, and options of the process outlast everything."""
    assert run_program(
        "acl.call('aclrtSetDevice', 0)\n"
        "pinned, value = acl.create('aclrtMallocHost', 8 << 20), ctypes.c_int64()\n"
        "print(acl.aclrtSetSysParamOpt(0, 1), acl.aclrtResetDevice(0), acl.aclInit(None))\n"
        "ctypes.memset(pinned, 1, 8 << 20)\n"
        "print(acl.aclrtGetSysParamOpt(0, ctypes.byref(value)), value.value, acl.aclrtFreeHost(pinned))\n"
        "print(acl.aclFinalize(), acl.aclrtGetSysParamOpt(0, ctypes.byref(value)), value.value)\n"
    ) == ["0 0 0", "0 1 0", "0 0 1"]


def test_init_beside_threads_that_set_their_device(run_program: Run) -> None:
    """Each thread keeps the device that it has set, whether aclInit comes before or after."""
    assert run_program(
        "import threading\n"
        "wrong = []\n"
        "for _ in range(300):\n"
        "    start = threading.Barrier(5)\n"
        "    def set_device():\n"
        "        number = ctypes.c_int32()\n"
        "        start.wait()\n"
        "        codes = acl.aclrtSetDevice(0), acl.aclrtGetDevice(ctypes.byref(number))\n"
        "        if codes != (0, 0): wrong.append(codes)\n"
        "    threads = [threading.Thread(target=set_device) for _ in range(4)]\n"
        "    for thread in threads: thread.start()\n"
        "    start.wait()\n"
        "    acl.call('aclInit', None)\n"
        "    for thread in threads: thread.join()\n"
        "    acl.call('aclFinalize')\n"
        "print(wrong)\n"
    ) == ["[]"]


@pytest.mark.needs("settings")
def test_bad_file_is_refused_even_if_a_device_is_in_use(run_program: Run, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.json").encode()
    assert run_program(
        f"acl.call('aclrtSetDevice', 0)\nprint(acl.aclInit({missing!r}), acl.aclFinalize(), acl.aclInit(None))\n"
    ) == ["100000 100037 0"]


@pytest.mark.needs("settings")
def test_file_of_init_adds_to_that_of_the_variable(run_program: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text('{"host": {"product": "950", "devices": 2}}')
    path = config_file(tmp_path, '{"host": {"devices": 3}}')
    program = (
        "count = ctypes.c_uint32()\n"
        "print(acl.aclrtGetDeviceCount(ctypes.byref(count)), count.value)\n"
        f"acl.call('aclInit', {path.encode()!r})\n"
        "print(acl.aclrtGetDeviceCount(ctypes.byref(count)), count.value, acl.aclrtGetSocName().decode()[:9])\n"
    )
    assert run_program(program, ACL_HOST_CONFIG=str(own)) == ["0 2", "0 3 Ascend950"]


@pytest.mark.needs("settings")
def test_default_device_is_that_of_threads_that_set_none(run_program: Run, tmp_path: Path) -> None:
    path = config_file(tmp_path, '{"host": {"devices": 2}, "defaultDevice": {"default_device": "1"}}')
    assert run_program(
        f"acl.call('aclInit', {path.encode()!r})\n"
        "number, out = ctypes.c_int32(-1), ctypes.c_void_p()\n"
        "print(acl.aclrtGetDevice(ctypes.byref(number)), number.value, acl.aclrtMalloc(ctypes.byref(out), 8, 0))\n"
        "print(acl.aclrtResetDevice(1), acl.aclrtResetDevice(1))\n"
    ) == ["0 1 0", "0 107002"]


@pytest.mark.needs("settings")
@pytest.mark.parametrize(("number", "code"), [("7", 107001), ("-1", 100000), ("one", 100000)])
def test_default_device_that_there_is_not(run_program: Run, tmp_path: Path, number: str, code: int) -> None:
    path = config_file(tmp_path, json.dumps({"defaultDevice": {"default_device": number}}))
    assert run_program(f"print(acl.aclInit({path.encode()!r}))\n") == [str(code)]


def test_a_program_may_exit_without_finalize(run_program: Run) -> None:
    run_program(
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "buffer = acl.create('aclrtMalloc', 64 << 20, 0)\n"
        "stream = acl.create('aclrtCreateStream')\n"
        "for _ in range(40):\n"
        "    acl.call('aclrtMemsetAsync', buffer, 64 << 20, 1, 64 << 20, stream)\n"
    )


def test_finalize_releases_what_is_left(run_program: Run) -> None:
    assert run_program(
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "buffer = acl.create('aclrtMalloc', 64 << 20, 0)\n"
        "first, second = acl.create('aclrtCreateStream'), acl.create('aclrtCreateStream')\n"
        "event = acl.create('aclrtCreateEvent')\n"
        "for _ in range(20):\n"
        "    acl.call('aclrtMemsetAsync', buffer, 64 << 20, 1, 64 << 20, first)\n"
        "acl.call('aclrtRecordEvent', event, first)\n"
        "acl.call('aclrtStreamWaitEvent', second, event)\n"
        "acl.call('aclFinalize')\n"
        "print(threading.active_count(), acl.aclrtSynchronizeStream(first), acl.aclrtFree(buffer))\n"
        "acl.call('aclInit', None)\n"
        "print(acl.aclrtSynchronizeStream(first), acl.aclrtFree(buffer))\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "print(acl.aclrtSynchronizeStream(first), acl.aclrtDestroyEvent(event))\n"
    ) == ["1 100001 100001", "107002 107000", "107017 107017"]


@pytest.mark.needs("settings")
def test_the_configuration_is_applied(run_program: Run, tmp_path: Path) -> None:
    settings = {"host": {"product": "910B", "devices": 3, "memory_bytes": 1 << 20, "threads": 2}, "dump": {"x": 1}}
    path = config_file(tmp_path, json.dumps(settings))
    program = (
        "count, free, total = ctypes.c_uint32(), ctypes.c_size_t(), ctypes.c_size_t()\n"
        "acl.call('aclrtSetDevice', 2)\n"
        "acl.call('aclrtGetDeviceCount', ctypes.byref(count))\n"
        "acl.call('aclrtGetMemInfo', 1, ctypes.byref(free), ctypes.byref(total))\n"
        "print(count.value, free.value, total.value, acl.aclrtGetSocName().decode())\n"
    )
    expected = ["3 1048576 1048576 Ascend910B1"]
    assert run_program(f"acl.call('aclInit', {path.encode()!r})\n" + program) == expected
    assert run_program("acl.call('aclInit', None)\n" + program, ACL_HOST_CONFIG=path) == expected


def test_devices_share_the_memory_of_the_machine(run_program: Run) -> None:
    program = (
        "free, total = ctypes.c_size_t(), ctypes.c_size_t()\n"
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "acl.call('aclrtGetMemInfo', 1, ctypes.byref(free), ctypes.byref(total))\n"
        "print(total.value)\n"
    )
    totals = [int(run_program(program, {"devices": devices})[0]) for devices in (1, 4)]
    assert totals[1] == totals[0] // 4


def test_others_may_use_a_part_of_the_device(run_program: Run) -> None:
    settings = {"memory_bytes": 4096, "memory_elsewhere_bytes": 1024, "streams_elsewhere": 1980}
    program = (
        "free, total = ctypes.c_size_t(), ctypes.c_size_t()\n"
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "acl.call('aclrtGetMemInfo', 1, ctypes.byref(free), ctypes.byref(total))\n"
        "out = ctypes.c_void_p()\n"
        "print(free.value, total.value, acl.aclrtMallocAlign32(ctypes.byref(out), 3073, 0))\n"
        "print(*[acl.aclrtCreateStream(ctypes.byref(out)) for _ in range(4)])\n"
    )
    assert run_program(program, settings) == ["3072 4096 207001", "0 0 0 207008"]


@pytest.mark.needs("settings")
@pytest.mark.parametrize("text", ["{}", '{"host": {}}', '{"err_msg_mode": 1}'])
def test_empty_configurations(run_program: Run, tmp_path: Path, text: str) -> None:
    assert run_program(f"print(acl.aclInit({config_file(tmp_path, text).encode()!r}))") == ["0"]


BAD_CONFIGURATIONS = [
    ("{", "JSON"),
    ("[]", "object"),
    ('{"host": 1}', "host"),
    ('{"host": {"colour": 1}}', "host.colour"),
    ('{"host": {"product": "911"}}', "910B"),
    ('{"host": {"product": 910}}', "host.product"),
    ('{"host": {"devices": 0}}', "host.devices"),
    ('{"host": {"vector_level": "mmx"}}', "host.vector_level must be one of baseline"),
    ('{"host": {"memory_bytes": -1}}', "host.memory_bytes"),
    ('{"host": {"memory_bytes": 18446744073709551615}}', "host.memory_bytes"),
    ('{"host": {"threads": "all"}}', "host.threads"),
    ('{"host": {"host_pointers": 1}}', "host.host_pointers must be true or false, not 1"),
    ('{"host": {"workspace_percent": 101}}', "host.workspace_percent must be an integer from 0 to 100, not 101"),
    ('{"host": {"not_repeatable": "aclnnRoiAlignV2Backward"}}', "host.not_repeatable must be a list"),
    ('{"host": {"not_repeatable": ["aclnnRelu"]}}', "host.not_repeatable[0] must be one of aclnnAdaptive"),
    ('{"host": {"faults": {}}}', "host.faults must be a list"),
    ('{"host": {"faults": [1]}}', "host.faults[0] must be an object, not 1"),
    ('{"host": {"faults": [{"at": 1}]}}', "host.faults[0].kind must be one of out_of_memory, out_of_pinned_memory"),
    ('{"host": {"faults": [{"kind": "hang", "at": 1}, {"kind": "fire", "at": 1}]}}', "host.faults[1].kind"),
    ('{"host": {"faults": [{"kind": "hang"}]}}', "host.faults[0].at must be an integer"),
    ('{"host": {"faults": [{"kind": "hang", "at": 0}]}}', "host.faults[0].at must be an integer from 1"),
    ('{"host": {"faults": [{"kind": "hang", "at": 1, "count": 0}]}}', "host.faults[0].count"),
    ('{"host": {"faults": [{"kind": "hang", "at": 1, "duration_ms": -1}]}}', "host.faults[0].duration_ms"),
    ('{"host": {"faults": [{"kind": "slow_copy", "at": 1}]}}', "host.faults[0].duration_ms"),
    ('{"host": {"faults": [{"kind": "launch_error", "at": 1, "code": 0}]}}', "host.faults[0].code"),
    ('{"host": {"faults": [{"kind": "hang_copy", "at": 1, "code": 507015}]}}', "unknown key host.faults[0].code"),
    (
        '{"host": {"faults": [{"kind": "hang", "at": 1, "operator": "Relu"}]}}',
        "faults[0].operator must be one of aclnnAd",
    ),
    (
        '{"host": {"faults": [{"kind": "hang", "at": 1, "data_type": "fp16"}]}}',
        "data_type must be one of FLOAT, FLOAT16",
    ),
    (
        '{"host": {"faults": [{"kind": "slow_copy", "at": 1, "operator": "aclnnSiluBackward"}]}}',
        "unknown key host.faults[0].op",
    ),
    ('{"host": {"failure_mode": "go on"}}', "host.failure_mode must be one of stop, continue"),
]
"""Texts, and what the message has to name."""


@pytest.mark.needs("settings")
def test_bad_configurations(run_program: Run, tmp_path: Path) -> None:
    """Each is refused, and afterwards the library can be initialised without it."""
    program = ""
    for number, (text, _) in enumerate(BAD_CONFIGURATIONS):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        program += f"print(acl.aclInit({str(path).encode()!r}), acl.message())\n"
        program += "print(acl.aclInit(None), acl.aclFinalize())\n"
    lines = run_program(program)
    assert lines[1::2] == ["0 0"] * len(BAD_CONFIGURATIONS)
    for line, (text, hint) in zip(lines[::2], BAD_CONFIGURATIONS, strict=True):
        assert line.startswith("100000 "), text
        assert hint in line, text


def test_a_missing_configuration_file(run_program: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "absent.json")
    lines = run_program("print(acl.aclInit(None))\nprint(acl.message())\n", ACL_HOST_CONFIG=path)
    assert lines[0] == "100000"
    assert path in lines[1]


@pytest.mark.parametrize(
    ("value", "count"),
    [("0,1,2,3", 4), ("1,3", 2), ("2", 1), ("0,2,x,3", 2), ("0,1,1", 2), ("2,1", 1), ("0,4", 1), ("1, 2", 1), ("", 0),
     ("-1", 0), ("0,", 1), ("99999999999", 0)],
)  # fmt: skip
def test_visible_devices(run_program: Run, value: str, count: int) -> None:
    lines = run_program(
        "count = ctypes.c_uint32(99)\n"
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtGetDeviceCount', ctypes.byref(count))\n"
        "print(count.value, [acl.aclrtSetDevice(number) for number in range(5)])\n",
        {"devices": 4},
        ASCEND_RT_VISIBLE_DEVICES=value,
    )
    assert lines == [f"{count} {[0] * count + [107001] * (5 - count)}"]
