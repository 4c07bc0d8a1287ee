"""Faults of the host library in the two phases of operators, which may name an operator and a data type."""

import signal
from collections.abc import Callable

import pytest

RUN = """
import numpy as np
acl.call('aclInit', None)
acl.call('aclrtSetDevice', 0)
SILU, TANH = "aclnnSiluBackward", "aclnnTanhBackward"

def call(name=SILU, dtype="float32", before=np.full((2, 5), 7.0), view=lambda array: array):
    '''Returns the codes of phase 1, phase 2 and the wait, if they come; sets `storage` and `output`, its view.'''
    global output, storage
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    ones, out = np.ones((2, 5), dtype), before.astype(dtype)
    with acl.tensor(ones) as grad, acl.tensor(ones) as other, acl.tensor(out, view(out)) as result:
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
    return lambda faults, program, **settings: run_program(RUN + program, {"faults": faults, **settings})


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("phase1_error", [161002]),
        ("phase2_error", [0, 561103, 0]),
        ("launch_error", [0, 0, 507051]),
    ],
)
def test_a_fault_counts_the_calls_of_its_operator_and_type(run: Fails, kind: str, codes: list[int]) -> None:
    fault = {"kind": kind, "operator": "aclnnSiluBackward", "data_type": "FLOAT16", "at": 2, "count": 2}
    if kind == "launch_error":
        fault["code"] = 507051
    lines = run(
        [fault],
        "for name, dtype in 3 * [(TANH, 'float16'), (SILU, 'float32'), (SILU, 'float16')]:\n"
        "    print(*call(name, dtype))\n"
        "print(*call(dtype='float16'))",
    )
    failing = " ".join(map(str, codes))
    assert lines == ["0 0 0"] * 5 + [failing] + ["0 0 0"] * 2 + [failing] + ["0 0 0"]


def test_a_fault_may_name_a_type_alone(run: Fails) -> None:
    lines = run(
        [{"kind": "phase1_error", "data_type": "FLOAT16", "at": 1, "count": 2, "code": 161001}],
        "print(*call(TANH), *call(TANH, 'float16'), *call(SILU, 'float16'), *call(SILU, 'float16'))",
    )
    assert lines == ["0 0 0 161001 161001 0 0 0"]


def test_faults_count_each_for_itself(run: Fails) -> None:
    """The first of the configuration wins where several apply; the others have counted that call, too."""
    faults = [
        {"kind": "phase2_error", "at": 3, "code": 561000},
        {"kind": "phase2_error", "operator": "aclnnTanhBackward", "at": 2, "count": 2, "code": 561002},
    ]
    program = "for name in (TANH, SILU, TANH, TANH, TANH): print(*call(name)[1:2])"
    assert run(faults, program) == ["0", "0", "561000", "561002", "0"]


@pytest.mark.parametrize("kind", ["phase1_error", "phase2_error"])
def test_a_refused_call_leaves_output_and_device_as_they_were(run: Fails, kind: str) -> None:
    lines = run(
        [{"kind": kind, "at": 1}],
        "call()\n"
        "text = acl.message()\n"
        "print('fault plan' in text, SILU in text, acl.aclrtGetLastError(0), (output == 7).all())\n"
        "print(*call(), (output == 7).any())\n",
    )
    assert lines == ["True True 0 True", "0 0 0 False"]


def test_a_phase_1_that_is_refused_for_its_arguments_does_not_count(run: Fails) -> None:
    program = "print(*call(dtype='int32'), acl.says('fault plan'))\nprint(*call(), acl.says('fault plan'))"
    assert run([{"kind": "phase1_error", "at": 1}], program) == ["161002 False", "161002 True"]


def test_faults_that_begin_after_a_launch_begin_with_the_next_plan(run: Fails) -> None:
    program = "for _ in range(3): print(*call())"
    faults = [{"kind": "phase1_error", "at": 1}, {"kind": "phase2_error", "at": 1}]
    assert run(faults, program, faults_after_launches=1) == ["0 0 0", "161002", "0 561103 0"]


def test_a_crash_ends_the_process(run_program: Callable[..., list[str]]) -> None:
    program = (
        "import os, signal\n"
        "child = os.fork()\n"
        "if child != 0:\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
        "    os._exit(0)\n"
        "signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # without a sanitizer's report\n"
        f"{RUN}"
        "print(*call(TANH), flush=True)\n"
        "print(*call(), flush=True)\n"
    )
    crash = {"kind": "crash", "operator": "aclnnSiluBackward", "at": 1}
    assert run_program(program, {"faults": [crash]}) == ["0 0 0", str(-signal.SIGSEGV)]


VIEWS = {
    "contiguous": "np.full((2, 5), 7.0), lambda array: array",
    "transposed": "np.full((5, 2), 7.0), lambda array: array.T",
    "with_gaps": "np.full((4, 5), 7.0), lambda array: array[::2]",
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_outputs_of_nothing_but_nan(run: Fails, dtype: str, view: str) -> None:
    """And nothing beside the view."""
    program = (
        f"print(*call(SILU, {dtype!r}, {view}), np.isnan(output).all(), np.isnan(storage).sum())\n"
        f"print(*call(SILU, {dtype!r}, {view}), np.isnan(output).any())\n"
    )
    assert run([{"kind": "nan_output", "at": 1}], program) == ["0 0 0 True 10", "0 0 0 False"]


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_outputs_of_which_half_is_written(run: Fails, view: str) -> None:
    program = (
        "sigmoid = 1 / (1 + np.exp(-1))\n"
        "expected = sigmoid * (1 + 1 - sigmoid)\n"
        "for _ in range(2):\n"
        f"    print(*call(SILU, 'float32', {view}), np.isclose(output, expected).astype(int).ravel(),\n"
        "          (storage == 7).sum() - storage.size + 10)\n"
    )
    lines = run([{"kind": "half_output", "at": 1}], program)
    assert lines == ["0 0 0 [1 1 1 1 1 0 0 0 0 0] 5", "0 0 0 [1 1 1 1 1 1 1 1 1 1] 0"]


def test_pinned_memory_may_run_out_by_itself(run: Fails) -> None:
    program = (
        "def device(): return acl.aclrtMalloc(ctypes.byref(ctypes.c_void_p()), 8, 0)\n"
        "def pinned(): return acl.aclrtMallocHost(ctypes.byref(ctypes.c_void_p()), 8)\n"
        "print(device(), pinned(), device(), pinned(), device(), pinned())"
    )
    assert run([{"kind": "out_of_pinned_memory", "at": 2}], program) == ["0 0 0 207001 0 0"]
