"""Misuses that cards answer with success and wrong results: the strict library does the same, and reports them."""

from collections.abc import Callable

import numpy as np
import pytest

from .strict_programs import HANG

Run = Callable[..., tuple[list[str], list[str]]]

# The program, its output, the reported offences, and a fault that it needs.
CASES: dict[str, tuple[str, str, list[str], dict[str, object] | None]] = {
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
    "a pinned source that is written before its copy and takes the result afterwards": (
        "stream, grad, out = hang()\n"
        "print(acl.aclrtMemcpyAsync(grad, 16, pinned, 16, 1, stream))\n"
        "ctypes.memset(pinned, 7, 16)\n"
        "print(acl.aclrtMemcpyAsync(pinned, 64, out, 64, 2, stream))\n"
        "acl.call('aclrtSynchronizeStream', stream)",
        "0\n0", ["pinned source changed"], HANG,
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
    "an output on another device": (
        "acl.call('aclrtSetDevice', 1)\n"
        "grad, stream = malloc(16), acl.create('aclrtCreateStream')\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "out = malloc(64)\n"
        "acl.call('aclrtSetDevice', 1)\n"
        "print(launch(plan(grad, out)[2], stream), acl.aclrtSynchronizeStream(stream))\n"
        "print(copy_out(out, 64), set(host[:64]))",
        "0 0\n0 {255}", ["tensor of another device"], None,
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
    "a tensor that is destroyed twice": (
        "image = tensor((1, 1, 4, 4))\n"
        "print(*[acl.aclDestroyTensor(image) for _ in range(2)], bool(plan(None, None)[2]))",
        "0 161002 True", ["double destroy"], None,
    ),
}  # fmt: skip

SETTERS = [f"{first}Set{kind}TensorAddr" for first in ("acl", "Acl") for kind in ("Input", "Output", "")]


@pytest.mark.parametrize("case", CASES)
def test_rule(run: Run, case: str) -> None:
    program, output, offences, fault = CASES[case]
    lines, reported = run(program, faults=[] if fault is None else [fault], devices=2)
    assert lines == output.splitlines()
    assert [each for each in reported if each not in ("not finalized", "leak")] == offences


@pytest.mark.parametrize("is_of_executor", [True, False])
@pytest.mark.parametrize("setter", SETTERS)
def test_an_executor_keeps_the_tensors_that_it_was_built_of(run: Run, setter: str, is_of_executor: bool) -> None:
    """A tensor of the same shape in place of one of them: launches succeed, and nothing of the output is right."""
    at_output = "Input" not in setter
    index = {"Input": 0, "Output": 0}.get(setter[6:-10], 2)  # grad and self are inputs
    program = (
        "grad, out = malloc(16), malloc(64)\n"
        "first, second, executor = plan(grad, out)\n"
        "acl.call('aclSetAclOpExecutorRepeatable', executor)\n"
        "acl.call('aclrtMemcpy', grad, 16, (ctypes.c_float * 4)(1, 1, 1, 1), 16, 1)\n"
        f"own, shape, address = (second, (1, 1, 4, 4), malloc(64)) if {at_output} else (first, (1, 1, 2, 2), grad)\n"
        f"acl.call({setter!r}, executor, {index}, own if {is_of_executor} else tensor(shape), address)\n"
        "print(launch(executor), acl.aclrtSynchronizeStream(None))\n"
        f"print(copy_out(address if {at_output} else out, 64), set((ctypes.c_float * 16).from_buffer(host)))\n"
        f"acl.call({setter!r}, executor, {index}, own, address)\n"
        "print(launch(executor), acl.aclrtSynchronizeStream(None))\n"
        f"print(copy_out(address if {at_output} else out, 64), set((ctypes.c_float * 16).from_buffer(host)))\n"
    )
    lines, reported = run(program)
    wrong = set(np.frombuffer(b"\xdb" * 4, np.float32).tolist())
    assert lines == ["0 0", "0 {0.25}" if is_of_executor else f"0 {wrong}", "0 0", "0 {0.25}"]
    offences = [] if is_of_executor else ["rebound to another tensor"]
    assert [each for each in reported if each not in ("not finalized", "leak")] == offences
