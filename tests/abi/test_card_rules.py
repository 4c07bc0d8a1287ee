"""Rules of real cards that the strict library enforces: docs/card-rules.md lists them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .strict_programs import HANG

Run = Callable[..., list[str]]
Offends = Callable[..., None]
ROOT = Path(__file__).resolve().parents[2]

HANGING_LAUNCH = {"kind": "hang_launch", "at": 1, "duration_ms": 800}

# The program, its output, the reported offences, and a fault that it needs.
CASES: dict[str, tuple[str, str, list[str], dict[str, object] | None]] = {
    "an asynchronous copy to or from an odd address": (
        "print(copy(malloc() + 8, pinned), copy(malloc(), pinned + 32), copy(malloc(), pinned))",
        "107000 107000 0", ["misaligned async copy"] * 2, None,
    ),
    "an asynchronous copy of pageable memory": (
        "print(copy(malloc(), pageable), copy(pageable, malloc(), 2))",
        "107000 107000", ["pageable async copy"] * 2, None,
    ),
    "an asynchronous copy within the host": ("print(copy(pinned, pinned + 128, 0))", "207000", [], None),
    "a wait as a poll": (
        "for times in (3, 4):\n"
        "    stream = hang()[0]\n"
        "    print(*[acl.aclrtSynchronizeStreamWithTimeout(stream, 1) for _ in range(times)])\n"
        "    acl.call('aclrtDestroyStreamForce', stream)",
        "507046 507046 507046\n507046 507046 507046 507046", ["wait polled"], {"kind": "hang", "at": 1, "count": 2},
    ),
    "destroying a busy stream": (
        "print(acl.aclrtDestroyStream(hang()[0]))", "0", ["destroyed while busy"], HANG,
    ),
    "resetting a device with streams": (
        "acl.create('aclrtCreateStream')\nprint(acl.aclrtResetDevice(0))", "0", ["reset with live streams"], None,
    ),
    "ending ACL for others": (
        "print(acl.aclInit(None), acl.aclrtFreeHost(pinned), acl.aclFinalize())",
        "100002 0 0", ["finalized for others"], None,
    ),
    "a child of the process": (
        "if os.fork() == 0:\n    print(acl.aclrtSetDevice(0), flush=True)\n    os._exit(0)\nos.wait()",
        "107000", ["used after fork"], None,
    ),
    "a repeatable executor of an earlier phase 1": (
        "first, second = plan(malloc(16), malloc(64)), plan(malloc(16), malloc(64))\n"
        "print(*[acl.aclSetAclOpExecutorRepeatable(each[2]) for each in (first, second)])",
        "561000 0", ["repeatable set late"], None,
    ),
    "a repeatable executor after another call": (
        "executor = plan(malloc(16), malloc(64))[2]\n"
        "malloc()\n"
        "print(acl.aclSetAclOpExecutorRepeatable(executor))",
        "561000", ["repeatable set late"], None,
    ),
    "a repeatable executor on two threads": (
        "grad, executor = repeatable()\n"
        "def run():\n"
        "    acl.call('aclrtSetDevice', 0)\n"
        "    launch(executor)\n"
        "thread = threading.Thread(target=run)\n"
        "thread.start()\n"
        "time.sleep(0.1)\n"
        "print(launch(executor))\n"
        "thread.join()\n"
        "print(acl.aclrtSynchronizeStream(None), launch(executor))\n"
        "acl.call('aclrtSynchronizeStream', None)",
        "161002\n0 0", ["executor run twice at once"], HANGING_LAUNCH,
    ),
    "a repeatable executor that outlives its tensors": (
        "grad, executor = repeatable()\nprint(acl.aclDestroyTensor(grad), acl.aclDestroyAclOpExecutor(executor))",
        "0 0", ["tensor destroyed before its executor"], None,
    ),
    "an operand at an odd address": (
        "print(launch(plan(malloc() + 16, malloc(64))[2]))", "161002", ["misaligned tensor"], None,
    ),
    "operands without room between them": (
        "memory = malloc()\nprint(launch(plan(memory, memory + 32)[2]), launch(plan(memory, memory + 64)[2]))",
        "161002 0", ["padding shared"], None,
    ),
    "an operand at the end of its allocation": (
        "print(launch(plan(malloc(16), acl.create('aclrtMallocAlign32', 64, 0).value)[2]))",
        "161002", ["padding shared"], None,
    ),
    "the bytes behind an operand while another stream has them": (
        "memory, stream = malloc(), acl.create('aclrtCreateStream')\n"
        "executors = [plan(malloc(16), memory + 32)[2], *(plan(memory, malloc(64))[2] for _ in range(2))]\n"
        "print([launch(each, on) for each, on in zip(executors, (stream, stream, None), strict=True)])\n"
        "acl.call('aclrtSynchronizeStream', stream)\nacl.call('aclrtDestroyStream', stream)",
        "[0, 0, 161002]", ["unsynchronised read"], HANG,
    ),
    "two settings of determinism": (
        "print(*[acl.aclrtCtxSetSysParamOpt(0, value) for value in (1, 1, 0)])",
        "0 0 0", ["determinism changed"], None,
    ),
    "phase 1 on a thread without a device": (
        "size = ctypes.c_uint64()\n"
        "def run():\n"
        "    image = tensor((1, 1, 4, 4))\n"
        "    phase = getattr(acl, NAME + 'GetWorkspaceSize')\n"
        "    print(phase(tensor((1, 1, 2, 2)), image, image, ctypes.byref(size), ctypes.byref(out)))\n"
        "thread = threading.Thread(target=run)\nthread.start()\nthread.join()\nprint(acl.aclrtPeekAtLastError(0))",
        "361001\n0", [], None,
    ),
    # Cards answer these with success and wrong results.
    "a pinned source that is written before its copy": (
        "stream, address = hang()[0], malloc(64)\n"
        "for written in (0, 1):\n"
        "    ctypes.memset(pinned, 7, 64)\n"
        "    print(acl.aclrtMemcpyAsync(address, 64, pinned, 64, 1, stream))\n"
        "    ctypes.memset(pinned, 7 + written, 64)\n"
        "    acl.call('aclrtSynchronizeStream', stream)\n"
        "    print(copy_out(address, 64), set(host[:64]))\n"
        "    stream = hang()[0]\n"
        "acl.call('aclrtSynchronizeStream', stream)",
        "0\n0 {7}\n0\n0 {8}", ["pinned source changed"], {**HANG, "count": 3, "duration_ms": 200},
    ),
    "a pinned source that takes the result afterwards": (
        "stream, grad, out = hang()\n"
        "ctypes.memset(pinned, 7, 64)\n"
        "sides = (grad, 16, pinned, 16, 1), (pinned, 64, out, 64, 2)\n"
        "print(*[acl.aclrtMemcpyAsync(*each, stream) for each in sides])\n"
        "acl.call('aclrtSynchronizeStream', stream)",
        "0 0", [], HANG,
    ),
    "a pinned source that is written after an event": (
        "stream, event = hang()[0], acl.create('aclrtCreateEventExWithFlag', 8)\n"
        "acl.call('aclrtMemcpyAsync', malloc(), 64, pinned, 64, 1, stream)\n"
        "acl.call('aclrtRecordEvent', event, stream)\n"
        "acl.call('aclrtSynchronizeEvent', event)\n"
        "ctypes.memset(pinned, 7, 64)\n"
        "print(acl.aclrtSynchronizeStream(stream))",
        "0", [], HANG,
    ),
    "a pinned source that is written when its copy has been dropped": (
        "stream = hang()[0]\n"
        "acl.call('aclrtMemcpyAsync', malloc(), 64, pinned, 64, 1, stream)\n"
        "acl.call('aclrtDestroyStreamForce', stream)\n"
        "ctypes.memset(pinned, 7, 64)\n"
        "print(acl.aclrtSynchronizeDevice(), acl.aclFinalize())",
        "0 0", [], HANG,
    ),
    "an operand on another device": (
        "grad = malloc(16)\n"
        "acl.call('aclrtSetDevice', 1)\n"
        "out = malloc(64)\n"
        "print(launch(plan(grad, out)[2]), acl.aclrtSynchronizeStream(None))\n"
        "print(copy_out(out, 64), set(host[:64]), acl.message())",
        "0 0\n0 {255} ", ["tensor of another device"], None,
    ),
    "an executor that is destroyed twice": (
        "executor = plan(None, None)[2]\n"
        "print(*[acl.aclDestroyAclOpExecutor(executor) for _ in range(2)])\n"
        "size, images = ctypes.c_uint64(), [tensor((1, 2, 4, 4)) for _ in range(2)]\n"
        "phase = acl.aclnnTanhBackwardGetWorkspaceSize\n"
        "print(*[phase(*images, images[1], ctypes.byref(size), ctypes.byref(out)) for _ in range(3)])\n"
        "print('twice' in acl.message(), acl.aclFinalize(), acl.aclInit(None), acl.aclrtSetDevice(0))\n"
        "print(phase(*images, images[1], ctypes.byref(size), ctypes.byref(out)))",
        "0 161002\n561103 561000 561103\nTrue 0 0 0\n561000", ["double destroy"], None,
    ),
}  # fmt: skip


def test_every_report_is_listed() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "native/strict").glob("*.cpp"))
    reports = set(re.findall(r'\b(?:Report|Refuse)\(\s*"([^"]+)"', sources))
    assert len(reports) > 15
    page = " ".join((ROOT / "docs/card-rules.md").read_text().split())
    assert {report for report in reports if f"`{report}`" not in page} == set()


@pytest.mark.parametrize("case", CASES)
def test_rule(offends: Offends, case: str) -> None:
    program, output, offences, fault = CASES[case]
    offends(program, output, offences, faults=[] if fault is None else [fault], devices=2)


@pytest.mark.parametrize(
    ("release", "codes", "offences"),
    [
        ("8.1", "107000 107000", ["pageable async copy", "misaligned async copy"]),
        ("8.3.0", "0 107000", ["misaligned async copy"]),
        ("8.5", "0 0", []),
    ],
)
def test_rules_of_copies_depend_on_the_release(offends: Offends, release: str, codes: str, offences: list[str]) -> None:
    # What was copied from pageable memory has ended: the memory may be used at once.
    program = (
        "address = malloc()\n"
        "print(copy(address, pageable + -pageable % 64), copy(malloc() + 8, pinned))\n"
        "print(acl.aclrtFree(address))"
    )
    offends(program, f"{codes}\n0", offences, strict_cann=release)


@pytest.mark.parametrize(("waits", "offences"), [(True, []), (False, ["freed in use"])])
def test_work_has_ended_that_an_event_was_waited_for(offends: Offends, waits: bool, offences: list[str]) -> None:
    """One stream copies, records an event and hangs; another waits for the event and is synchronised."""
    program = (
        "copying, waiting = acl.create('aclrtCreateStream'), acl.create('aclrtCreateStream')\n"
        "event, address = acl.create('aclrtCreateEventExWithFlag', 8), malloc()\n"
        "acl.call('aclrtMemcpyAsync', address, 64, pinned, 64, 1, copying)\n"
        "acl.call('aclrtRecordEvent', event, copying)\n"
        "assert launch(plan(malloc(16), malloc(64))[2], copying) == 0\n"
        f"if {waits}:\n    acl.call('aclrtStreamWaitEvent', waiting, event)\n"
        "acl.call('aclrtSynchronizeStream', waiting)\n"
        "print(acl.aclrtFree(address) == 0)\n"
        "acl.call('aclrtSynchronizeStream', copying)"
    )
    offends(program, str(waits), offences, faults=[HANG])


@pytest.mark.parametrize("drop", ["aclrtDestroyStreamForce(waiting)", "aclrtResetDeviceForce(1)"])
def test_work_goes_on_if_who_waits_for_it_is_dropped(offends: Offends, drop: str) -> None:
    """A stream of device 1 waits for one of device 0 that hangs; then the former is dropped."""
    program = (
        "busy, address = acl.create('aclrtCreateStream'), malloc(16)\n"
        "event = acl.create('aclrtCreateEventExWithFlag', 8)\n"
        "assert launch(plan(address, malloc(64))[2], busy) == 0\n"
        "acl.call('aclrtRecordEvent', event, busy)\n"
        "acl.call('aclrtSetDevice', 1)\n"
        "waiting = acl.create('aclrtCreateStream')\n"
        "acl.call('aclrtStreamWaitEvent', waiting, event)\n"
        f"print(acl.{drop}, acl.aclrtSetDevice(0), acl.aclrtFree(address))\n"
        "acl.call('aclrtSynchronizeStream', busy)"
    )
    offends(program, "0 0 107000", ["freed in use"], faults=[HANG], devices=2)


@pytest.mark.parametrize("setter", ["aclSetInput", "aclSetOutput", "aclSet", "AclSet"])
def test_an_executor_keeps_the_tensors_that_it_was_built_of(offends: Offends, setter: str) -> None:
    """A tensor of the same shape in place of one of them: launches succeed, and nothing of the output is right."""
    is_input = setter == "aclSetInput"
    index = {"aclSetInput": 0, "aclSetOutput": 0}.get(setter, 2)  # grad and self are inputs
    program = (
        "grad, out = malloc(16), malloc(64)\n"
        "first, second, executor = plan(grad, out)\n"
        "acl.call('aclSetAclOpExecutorRepeatable', executor)\n"
        "acl.call('aclrtMemcpy', grad, 16, (ctypes.c_float * 4)(1, 1, 1, 1), 16, 1)\n"
        f"own, shape, address = {'first, (1, 1, 2, 2), grad' if is_input else 'second, (1, 1, 4, 4), malloc(64)'}\n"
        "for given in (own, tensor(shape), own):\n"
        f"    acl.call('{setter}TensorAddr', executor, {index}, given, address)\n"
        "    print(launch(executor), acl.aclrtSynchronizeStream(None))\n"
        f"    print(copy_out({'out' if is_input else 'address'}, 64), bytes(host[:64]) == b'\\xdb' * 64,\n"
        "          set((ctypes.c_float * 16).from_buffer(host)) == {0.25})\n"
    )
    right, wrong = "0 0\n0 False True\n", "0 0\n0 True False\n"
    offends(program, right + wrong + right, ["rebound to another tensor"])


def test_reset_of_a_default_device_that_no_thread_has_set(offends: Offends) -> None:
    """It is not counted as one of those that undo aclrtSetDevice: live streams are still found."""
    program = (
        "acl.call('aclrtFreeHost', pinned)\n"
        "acl.call('aclFinalize')\n"
        "import os, json\n"
        "settings = json.load(open(os.environ['ACL_HOST_CONFIG'])) | {'defaultDevice': {'default_device': '0'}}\n"
        "json.dump(settings, open(os.environ['ACL_HOST_CONFIG'] + '.default', 'w'))\n"
        "acl.call('aclInit', (os.environ['ACL_HOST_CONFIG'] + '.default').encode())\n"
        "acl.call('aclrtFree', malloc())\n"
        "print(acl.aclrtResetDevice(0), acl.aclrtSetDevice(0))\n"
        "stream = acl.create('aclrtCreateStream')\n"
        "print(acl.aclrtResetDevice(0), acl.aclFinalize())"
    )
    offends(program, "0 0\n0 0", ["reset with live streams"])


def test_file_of_the_variable_holds_before_init(run_program: Run, tmp_path: Path) -> None:
    program = (
        "acl.call('aclrtSetDevice', 0)\n"
        "address, host = acl.create('aclrtMalloc', 256, 0), (ctypes.c_uint8 * 256)()\n"
        "print(acl.aclrtMemcpyAsync(address, 256, ctypes.addressof(host), 256, 1, None))"
    )
    report = tmp_path / "report"
    for release, code in (("8.1", "107000"), ("8.5", "0")):
        assert run_program(program, {"strict": True, "strict_report": report, "strict_cann": release}) == [code]
    assert report.read_text().count("pageable async copy") == 1


def test_a_process_that_ends_without_finalize(offends: Offends) -> None:
    offends("print(1)", "1", ["not finalized"])


def test_texts_as_a_card_gives_them(run_program: Run) -> None:
    """All failures of the thread since the last question, the newest first, cut in the middle of a character."""
    program = (
        "acl.call('aclInit', None)\n"
        "print(acl.aclrtSetDevice(7), acl.aclrtSetDevice(8))\n"
        "text = acl.aclGetRecentErrMsg()\n"
        "print(text.find(b'device 8') < text.find(b'device 7'), text.count(b'\\n') > 4, text[-2:])\n"
        "print(acl.aclGetRecentErrMsg())\n"
    )
    assert run_program(program, {"card_messages": True}) == ["107001 107001", "True True b'\\xe4\\xb8'", "None"]


@pytest.mark.parametrize(("setting", "dumps"), [("all", True), ("none", False)])
def test_handlers_of_signals_that_come_before_the_programs(run_program: Run, setting: str, dumps: bool) -> None:
    program = (
        "import os, signal\n"
        "read, write = os.pipe()\n"
        "os.dup2(write, 2)\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('handled'))\n"
        "acl.call('aclInit', None)\n"
        "for _ in range(2):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "os.write(2, b'.')\n"
        "print(os.read(read, 4096).count(b'stacks'))\n"
    )
    lines = run_program(program, {"signal_handlers": True}, ASCEND_COREDUMP_SIGNAL=setting)
    assert lines == ["handled", "handled", str(int(dumps))]


def test_the_number_of_events_is_limited(run_program: Run) -> None:
    program = (
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "out = ctypes.c_void_p()\n"
        "codes = [acl.aclrtCreateEvent(ctypes.byref(out)) for _ in range(1025)]\n"
        "print(codes.count(0), codes[-1])\n"
    )
    assert run_program(program, {"product": "310P"}) == ["1023 207007"]
