"""The strict library: each offence is reported with its origin, and refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .strict_programs import PRELUDE

FREED = "use after free: "

# The program, its output, and its offences in order, with a part of the report.
CASES: dict[str, tuple[str, str, list[str]]] = {
    "freed memory": (
        "print(copy_out(freed()))\n"
        "address = freed()\n"
        "print(copy_in(address + 8, 8), acl.aclrtMemset(address, 8, 0, 8))\n"
        "print(acl.aclrtMemsetAsync(address, 8, 0, 8, None))\n"
        "print(launch(plan(freed(16), malloc(64))[2]))",
        "107000\n107000 107000\n107000\n161002",
        [
            FREED + r"device memory of 256 bytes made in aclrtMalloc \(allocation \d\).*freed in aclrtFree"
            r".*256 bytes at offset 0 read in aclrtMemcpy called from",
            FREED + ".*8 bytes at offset 8 written in aclrtMemcpy",
            FREED + ".*aclrtMemset",
            FREED + ".*aclrtMemsetAsync",
            FREED + ".*read in aclnnAdaptiveAvgPool2dBackward",
        ],
    ),
    "a copy past the end": (
        "print(copy_in(malloc(100), 101), copy_in(malloc(100), 100))", "107000 0",
        ["out of bounds: .*101 bytes at offset 0 written in aclrtMemcpy"],
    ),
    "freeing twice": (
        "pinned = acl.create('aclrtMallocHost', 8)\nacl.call('aclrtFreeHost', pinned)\n"
        "print(acl.aclrtFree(freed()), acl.aclrtFreeHost(pinned))", "107000 107000",
        ["double free: .*freed in aclrtFree called from.*again in aclrtFree", "double free: .*pinned memory of 8"],
    ),
    "destroying twice": (
        "grad, out, executor = plan(None, None)\n"
        "array, mask = acl.aclCreateIntArray(int64s((1,)), 1), acl.aclCreateBoolArray(None, 0)\n"
        "scalar = acl.aclCreateScalar(ctypes.byref(ctypes.c_float(1)), 0)\n"
        "stream, event = acl.create('aclrtCreateStream'), acl.create('aclrtCreateEvent')\n"
        "names = 'aclDestroyAclOpExecutor aclDestroyTensor aclDestroyIntArray aclrtDestroyStream aclrtDestroyEvent'\n"
        "for _ in range(2):\n"
        "    calls = zip(names.split(), (executor, grad, array, stream, event))\n"
        "    print(*[getattr(acl, name)(thing) for name, thing in calls])",
        "0 0 0 0 0\n161002 161002 161002 107017 107017",
        ["double destroy: .*an executor made in aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize",
         "double destroy: .*an aclTensor made in aclCreateTensor.*destroyed in aclDestroyTensor.*again in",
         "double destroy: .*an aclIntArray", "double destroy: .*a stream made in aclrtCreateStream",
         "double destroy: .*an event made in aclrtCreateEvent"],
    ),
    "destroying the tensors of a list": (
        "def listed(*tensors):\n"
        "    return acl.aclCreateTensorList((ctypes.c_void_p * len(tensors))(*tensors), len(tensors))\n"
        "first, second, other = (tensor((2,)) for _ in range(3))\n"
        "made, twice = listed(first, None, second), listed(other, other)\n"
        "print(acl.aclDestroyTensorList(made), acl.aclDestroyTensorList(made), acl.aclDestroyTensor(second))\n"
        "print(acl.aclGetTensorListSize(made, ctypes.byref(ctypes.c_uint64())))\n"
        "print(acl.aclDestroyTensorList(twice))\n"
        "third = tensor((2,))\n"
        "late = listed(third)\n"
        "print(acl.aclDestroyTensor(third), acl.aclDestroyTensorList(late))",
        "0 161002 161002\n161002\n161002\n0 161002",
        ["double destroy: .*an aclTensorList made in aclCreateTensorList.*destroyed in aclDestroyTensorList.*again in",
         "double destroy: .*an aclTensor made in.*destroyed in aclDestroyTensorList.*again in aclDestroyTensor",
         "use of a destroyed object: .*an aclTensorList",
         "double destroy: .*an aclTensor.*again in aclDestroyTensorList",
         "double destroy: .*an aclTensor.*destroyed in aclDestroyTensor called.*again in aclDestroyTensorList"],
    ),
    "using what was destroyed": (
        "grad, out, executor = plan(None, None)\n"
        "acl.call('aclDestroyTensor', grad)\n"
        "stream = acl.create('aclrtCreateStream')\n"
        "acl.call('aclrtDestroyStream', stream)\n"
        "size = ctypes.c_uint64()\n"
        "print(acl.aclGetViewOffset(grad, ctypes.byref(size)), acl.aclrtSynchronizeStream(stream))\n"
        "phase = getattr(acl, NAME + 'GetWorkspaceSize')\n"
        "print(phase(grad, out, out, ctypes.byref(size), ctypes.byref(ctypes.c_void_p())))\n"
        "acl.call('aclDestroyAclOpExecutor', executor)\n"
        "print(launch(executor))",
        "161002 107017\n161002\n161002",
        ["use of a destroyed object: .*an aclTensor.*used in aclGetViewOffset",
         "use of a destroyed object: .*a stream.*used in aclrtSynchronizeStream",
         "use of a destroyed object: .*an aclTensor.*used in aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize",
         "use of a destroyed object: .*an executor"],
    ),
    "launching with a destroyed tensor": (
        "grad, out, executor = plan(malloc(16), malloc(64))\n"
        "acl.call('aclSetAclOpExecutorRepeatable', executor)\n"
        "print(launch(executor))\nacl.call('aclDestroyTensor', grad)\nprint(launch(executor))\n"
        "acl.call('aclrtSynchronizeStream', None)",
        "0\n161002", ["use of a destroyed object: .*an aclTensor.*used in aclnnAdaptiveAvgPool2dBackward"],
    ),
    "launching twice": (
        "grad, out, executor = plan(malloc(16), malloc(64))\nprint(launch(executor), launch(executor))\n"
        "print(acl.aclDestroyAclOpExecutor(executor))\nacl.call('aclrtSynchronizeStream', None)",
        "0 161002\n161002",
        ["executor launched twice: .*an executor made in.*consumed in aclnnAdaptive.*again in aclnnAdaptive",
         "double destroy: .*consumed in aclnnAdaptive"],
    ),
    "a workspace too small": (
        "shape, strides, size = int64s((1, 1, 2, 2)), int64s((4, 4, 1, 2)), malloc(64)\n"
        "out = acl.aclCreateTensor(shape, 4, 0, strides, 0, 0, shape, 4, malloc(16))\n"
        "bytes, executor = acl.plan(NAME, tensor((1, 1, 1, 1), malloc(4)), out, out)\n"
        "print(getattr(acl, NAME)(malloc(4096), bytes - 1, executor, None))\n"
        "_, executor = acl.plan(NAME, tensor((1, 1, 1, 1), malloc(4)), out, out)\n"
        "print(getattr(acl, NAME)(malloc(64), bytes, executor, None))",
        "161002\n161002", ["workspace too small: .*bytes, but", "out of bounds: .*of 64 bytes"],
    ),
    "disturbing work": (
        "stream, grad, out = hang()\n"
        "print(acl.aclrtFree(grad), copy_in(grad, 16), acl.aclrtMemset(out, 64, 0, 64), copy_out(out, 64))\n"
        "print(copy_out(grad, 16))\n"
        "acl.call('aclrtDestroyStreamForce', stream)\n"
        "print(copy_out(out, 64), copy_in(grad, 16), acl.aclrtFree(grad))",
        "107000 107000 107000 107000\n0\n0 0 0",
        [r"freed in use: .*in use by aclnnAdaptiveAvgPool2dBackward \(launch 1\).*freed in aclrtFree",
         "overwritten in use: .*written in aclrtMemcpy", "overwritten in use: .*written in aclrtMemset",
         "unsynchronised read: .*read in aclrtMemcpy"],
    ),
    "disturbing a fill": (
        "stream, *_ = hang()\n"
        "filled = malloc(64)\n"
        "print(acl.aclrtMemsetAsync(filled, 64, 255, 64, stream), acl.aclrtFree(filled), copy_out(filled, 64))\n"
        "acl.call('aclrtDestroyStreamForce', stream)\n"
        "print(acl.aclrtFree(filled))",
        "0 107000 107000\n0",
        ["freed in use: .*in use by aclrtMemsetAsync", "unsynchronised read: .*read in aclrtMemcpy"],
    ),
    "fresh memory": (
        "print(copy_out(malloc()), bytes(host[:256]) == b'\\xcb' * 256)\n"
        "print(ctypes.string_at(acl.create('aclrtMallocHost', 8).value, 8).hex())",
        "0 True\n" + "cb" * 8, [],
    ),
    "leaks": (
        "kept = plan(malloc(16), acl.create('aclrtMallocHost', 8).value)\n"
        "kept = acl.create('aclrtCreateStream'), acl.create('aclrtCreateEvent'), acl.aclCreateIntArray(None, 0)\n"
        "kept = acl.aclCreateTensorList((ctypes.c_void_p * 1)(tensor((2,))), 1)\n"
        "for function in ('aclrtDestroyStream', 'aclrtDestroyEvent'):\n"
        "    acl.call(function, acl.create(function.replace('Destroy', 'Create')))\n"
        "acl.call('aclrtFree', malloc())\n"
        "print(acl.aclrtFreeHost(pinned), acl.aclFinalize(), acl.aclInit(None), acl.aclFinalize())",
        "0 0 0 0",
        [
            f"leak: {text}"
            for text in (
                "a stream", "an aclIntArray", "an aclTensor", "an aclTensor", "an aclTensor", "an aclTensorList",
                "an event", "an executor",
                r"device memory of 16 bytes made in aclrtMalloc \(allocation \d\)", "pinned memory of 8 bytes",
            )
        ],
    ),
    "memory of the host where it is refused": (
        "print(acl.aclrtMemcpy(pageable, 8, pageable, 8, 1), launch(plan(pageable, malloc(64))[2]), copy_in(freed()))",
        "107000 161002 107000",
        ["memory outside any allocation", "memory outside any allocation", "use after free"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_offences(offends: Callable[..., None], case: str) -> None:
    program, output, offences = CASES[case]
    faults = [{"kind": "hang", "at": 1}] if "hang" in program else []
    offends(program, output, offences, faults=faults, host_pointers="refused" not in case)


WRONG_SETTINGS = {
    '{"strict": "yes"}': "strict must be true, false or",
    '{"strict": {"colour": 1}}': "unknown key strict.colour",
    '{"strict": {"report": 1}}': "strict.report must be a string",
    '{"strict": ': "is not JSON",
    '{"strict": {"cann": 8.5}}': "must be a release of CANN such as",
    '{"strict": {"cann": "new"}}': "must be a release of CANN such as",
    '{"strict": {"cann": "8.555"}}': "must be a release of CANN such as",
    '{"strict": {"report": "/no/such/folder/report"}}': "cannot write to /no/such/folder/report",
}


def test_wrong_settings(run_program: Callable[..., list[str]], tmp_path: Path) -> None:
    program = ""
    for number, text in enumerate(WRONG_SETTINGS):
        config = tmp_path / f"{number}.json"
        config.write_text(text)
        program += f"print(acl.aclInit({str(config).encode()!r}), acl.message())\n"
        program += "print(acl.aclInit(None), acl.aclFinalize())\n"
    lines = run_program(program, {"strict": True})
    assert lines[1::2] == ["0 0"] * len(WRONG_SETTINGS)
    for line, told in zip(lines[::2], WRONG_SETTINGS.values(), strict=True):
        assert line.startswith("100000 ")
        assert told in line


def test_it_can_be_turned_off(run_program: Callable[..., list[str]], tmp_path: Path) -> None:
    """And on again by the next aclInit."""
    config, report = tmp_path / "acl.json", tmp_path / "report"
    config.write_text('{"strict": false}')
    program = (
        f"acl.call('aclInit', {str(config).encode()!r})\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "print(acl.aclrtMemcpyAsync(malloc(), 8, pageable, 8, 1, None))\n"
        "acl.call('aclFinalize')\n"
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "print(acl.aclrtMemcpyAsync(malloc(), 8, pageable, 8, 1, None))\n"
        "acl.call('aclFinalize')\n"
    )
    preamble = PRELUDE.replace("acl.call('aclInit', None)\nacl.call('aclrtSetDevice', 0)\n", "")
    assert run_program(preamble + program, {"strict": True, "strict_report": str(report)}) == ["0", "107000"]
    assert [line.split(": ")[1] for line in report.read_text().splitlines()] == ["pageable async copy", "leak"]


def test_reports_go_to_stderr_by_default(run_program: Callable[..., list[str]]) -> None:
    program = (
        "import os, sys\n"
        "read, write = os.pipe()\n"
        "os.dup2(write, 2)\n"
        "print(acl.aclrtFree(freed()))\n"
        "print(os.read(read, 4096).decode())\n"
    )
    lines = run_program(PRELUDE + program, {"strict": True})
    assert lines[0] == "107000"
    assert lines[1].startswith("acl_strict: double free: ")
