"""aclInit, aclFinalize and the configuration, each in a process of its own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., list[str]]

MEMORY = (
    "free, total = ctypes.c_size_t(), ctypes.c_size_t()\n"
    "acl.call('aclInit', None)\n"
    "acl.call('aclrtSetDevice', 0)\n"
    "acl.call('aclrtGetMemInfo', 1, ctypes.byref(free), ctypes.byref(total))\n"
)

# The program and its output.
CASES = {
    "both repeat": (
        "print(acl.aclInit(None), acl.aclInit(None), acl.aclFinalize(), acl.aclFinalize())\n"
        "print(acl.aclInit(None), acl.aclrtSetDevice(0), acl.aclFinalize())",
        "0 100002 0 100037\n0 0 0",
    ),
    "the last of several users releases everything": (
        "left = ctypes.c_uint64(9)\n"
        "def release():\n"
        "    return f'{acl.aclFinalizeReference(ctypes.byref(left))} {left.value}'\n"
        "print(acl.aclInit(None), acl.aclInit(None), acl.aclInit(None))\n"
        "print(release(), acl.aclrtSetDevice(0), release(), acl.aclrtSetDevice(0))\n"
        "print(acl.aclFinalizeReference(None), acl.aclrtSetDevice(0), acl.aclFinalizeReference(None))",
        "0 100002 100002\n0 2 0 0 1 0\n0 0 100037",
    ),
    # CANN's runtime starts with the first call that needs it; aclInit then keeps the device that is in use.
    "devices are found and set before init": (
        "count, number, out = ctypes.c_uint32(), ctypes.c_int32(), ctypes.c_void_p()\n"
        "print(acl.aclrtGetDevice(ctypes.byref(number)), acl.aclrtPeekAtLastError(0), acl.aclrtGetSocName().decode())\n"
        "print(acl.aclrtGetDeviceCount(ctypes.byref(count)), count.value, acl.aclrtSetDevice(0))\n"
        "print(acl.aclrtMalloc(ctypes.byref(out), 8, 0), acl.aclInit(None), acl.aclrtFree(out), acl.aclFinalize())",
        "107002 0 Ascend910B1\n0 1 0\n0 0 0 0",
    ),
    # Pinned memory outlasts its device, and options of the process outlast everything.
    "init keeps what was made and set before it": (
        "acl.call('aclrtSetDevice', 0)\n"
        "pinned, value = acl.create('aclrtMallocHost', 8 << 20), ctypes.c_int64()\n"
        "print(acl.aclrtSetSysParamOpt(0, 1), acl.aclrtResetDevice(0), acl.aclInit(None))\n"
        "ctypes.memset(pinned, 1, 8 << 20)\n"
        "print(acl.aclrtGetSysParamOpt(0, ctypes.byref(value)), value.value, acl.aclrtFreeHost(pinned))\n"
        "print(acl.aclFinalize(), acl.aclrtGetSysParamOpt(0, ctypes.byref(value)), value.value)",
        "0 0 0\n0 1 0\n0 0 1",
    ),
    "a program may exit without finalize": (
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "buffer = acl.create('aclrtMalloc', 64 << 20, 0)\n"
        "stream = acl.create('aclrtCreateStream')\n"
        "for _ in range(40):\n"
        "    acl.call('aclrtMemsetAsync', buffer, 64 << 20, 1, 64 << 20, stream)",
        "",
    ),
    "finalize releases what is left": (
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
        "print(acl.aclrtSynchronizeStream(first), acl.aclrtDestroyEvent(event))",
        "1 100001 100001\n107002 107000\n107017 107017",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_processes(run_program: Run, case: str) -> None:
    program, output = CASES[case]
    assert run_program(program + "\n") == output.splitlines()


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


def test_init_beside_threads_that_set_their_device(run_program: Run) -> None:
    """Each thread keeps the device that it has set, whether aclInit comes before or after."""
    assert run_program(
        "import threading\n"
        "wrong = []\n"
        "for _ in range(60):\n"
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


INIT = "code = acl.aclInit(path.encode())\n"
COUNT = "count = ctypes.c_uint32()\nprint(acl.aclrtGetDeviceCount(ctypes.byref(count)), count.value)\n"
PARTS = {"host": {"product": "910B", "devices": 3, "memory_bytes": 1 << 20, "threads": 2}, "dump": {"x": 1}}

# The configuration that aclInit gets, or None if there is no such file, and that of the variable; the program, in which
# `path` is the former's; its output.
CONFIGURATIONS: dict[str, tuple[object, object, str, str]] = {
    "a bad file is refused even if a device is in use": (
        None,
        {},
        "acl.call('aclrtSetDevice', 0)\nprint(acl.aclInit(path.encode()), acl.aclFinalize(), acl.aclInit(None))",
        "100000 100037 0",
    ),
    "the file of init adds to that of the variable": (
        {"host": {"devices": 3}},
        {"host": {"product": "950", "devices": 2}},
        COUNT + INIT + COUNT + "print(acl.aclrtGetSocName().decode()[:9])",
        "0 2\n0 3\nAscend950",
    ),
    "a default device is that of threads that set none": (
        {"host": {"devices": 2}, "defaultDevice": {"default_device": "1"}},
        {},
        INIT + "number, out = ctypes.c_int32(-1), ctypes.c_void_p()\n"
        "print(acl.aclrtGetDevice(ctypes.byref(number)), number.value, acl.aclrtMalloc(ctypes.byref(out), 8, 0))\n"
        "print(acl.aclrtResetDevice(1), acl.aclrtResetDevice(1))",
        "0 1 0\n0 107002",
    ),
    **{
        f"no default device {number}": ({"defaultDevice": {"default_device": number}}, {}, INIT + "print(code)", code)
        for number, code in (("7", "107001"), ("-1", "100000"), ("one", "100000"))
    },
    **{f"empty {each}": (each, {}, INIT + "print(code)", "0") for each in ({}, {"host": {}}, {"err_msg_mode": 1})},
    **{
        f"applied, {name}": (
            *configurations,
            INIT
            + COUNT
            + MEMORY.replace("acl.call('aclInit', None)\n", "")
            + "print(free.value, total.value, acl.aclrtGetSocName().decode(), acl.aclrtSetDevice(2))",
            "0 3\n1048576 1048576 Ascend910B1 0",
        )
        for name, configurations in (("of init", (PARTS, {})), ("of the variable", ({}, PARTS)))
    },
    "others may use a part of the device": (
        {},
        {"host": {"memory_bytes": 4096, "memory_elsewhere_bytes": 1024, "streams_elsewhere": 1980}},
        MEMORY + "out = ctypes.c_void_p()\n"
        "print(free.value, total.value, acl.aclrtMallocAlign32(ctypes.byref(out), 3073, 0))\n"
        "print(*[acl.aclrtCreateStream(ctypes.byref(out)) for _ in range(4)])",
        "3072 4096 207001\n0 0 0 207008",
    ),
}


@pytest.mark.needs("settings")
@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_configurations(run_program: Run, tmp_path: Path, case: str) -> None:
    given, own, program, output = CONFIGURATIONS[case]
    path, variable = tmp_path / "acl.json", tmp_path / "own.json"
    variable.write_text(json.dumps(own))
    if given is not None:
        path.write_text(json.dumps(given))
    lines = run_program(f"path = {str(path)!r}\n{program}\n", ACL_HOST_CONFIG=str(variable))
    assert lines == output.splitlines()


def test_devices_share_the_memory_of_the_machine(run_program: Run) -> None:
    totals = [int(run_program(MEMORY + "print(total.value)\n", {"devices": devices})[0]) for devices in (1, 4)]
    assert totals[1] == totals[0] // 4


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
    ('{"host": {"not_repeatable": ["aclnnReluForward"]}}', "host.not_repeatable[0] must be one of aclnnAbs"),
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
        "faults[0].operator must be one of aclnnAb",
    ),
    (
        '{"host": {"faults": [{"kind": "hang", "at": 1, "data_type": "fp16"}]}}',
        "data_type must be one of FLOAT, FLOAT16",
    ),
    (
        '{"host": {"faults": [{"kind": "slow_copy", "at": 1, "operator": "aclnnSiluBackward"}]}}',
        "unknown key host.faults[0].op",
    ),
    ('{"host": {"stream_failure_mode": "stop"}}', "host.stream_failure_mode must be true or false"),
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
