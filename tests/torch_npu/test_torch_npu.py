"""PyPI's torch_npu on the host library, unmodified: operators, devices, streams, threads and faults."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch_npu.conftest import Cann, Run

PRODUCTS = ("910B", "910_93", "950")
LAYOUTS = ("contiguous", "transposed", "offset")
TASK_QUEUES = ("0", "1", "2")
"""Modes of torch_npu: phase 2 on the caller's thread, on another, and phase 1 there as well."""
OPERATORS = 35
"""Of the project. No product has both operators for the gradient of max pooling in torch_npu."""
OPERANDS = {"linear": 3, "matmul": 2, "bmm": 2, "addmm": 3, "mm": 2}
"""Of functions whose forward and backward passes are torch_npu's own, each with a gradient."""
CONVOLUTIONS = 5 * 3 * 2
"""Each with three gradients, alone and together."""


@pytest.mark.parametrize("task_queue", TASK_QUEUES)
@pytest.mark.parametrize("product", PRODUCTS)
def test_gradients_are_those_of_pytorch(cann: Cann, run: Run, product: str, task_queue: str) -> None:
    arguments = (product, str(cann.folder), str(cann.built))
    answer = run("gradients", *arguments, product=product, variables={"TASK_QUEUE_ENABLE": task_queue})
    assert answer["wrong"] == []
    assert all(right == made > 0 for right, made in answer["rows"].values())
    assert {row.split()[1] for row in answer["rows"]} == set(LAYOUTS)
    assert len({row.split()[0] for row in answer["rows"]}) == OPERATORS - 1 + sum(OPERANDS.values()) + CONVOLUTIONS
    print(f"{product}, task queue {task_queue}: {sum(made for _, made in answer['rows'].values())} calls, all right")


ATTENTIONS = 3 * (4 * 4 + 4)
"""In each dtype: four masks in each layout of npu_fusion_attention, and PyTorch's own function."""


@pytest.mark.parametrize("product", PRODUCTS[:2])
def test_attention_and_its_gradients_are_those_of_pytorch(run: Run, product: str) -> None:
    answer = run("attention", product=product)
    assert answer == {"rows": ATTENTIONS, "wrong": []}


def test_attention_of_a_950_needs_what_the_host_library_lacks(run: Run) -> None:
    wrong = run("attention", product="950")["wrong"]
    assert len(wrong) == ATTENTIONS
    assert all("aclnnFlashAttentionScoreV4" in each for each in wrong)


@pytest.mark.parametrize("product", PRODUCTS)
def test_devices_streams_events_memory_and_threads(run: Run, product: str) -> None:
    answer = run("device", product=product, devices=2)
    assert set(answer.values()) == {True}, answer


FAULTS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], tuple[str, ...], bool]] = {
    "refused": (
        [],
        {},
        ("RuntimeError", "error code is 161002", "gradOutput: expected the first 2 dims of self"),
        True,
    ),
    "no memory": (
        [{"kind": "out_of_memory", "at": 1, "count": 2}],
        {},
        ("OutOfMemoryError", "NPU out of memory"),
        True,
    ),
    "hang": ([{"kind": "hang", "at": 1, "duration_ms": 4000}], {}, ("RuntimeError", "error code is 507046"), True),
    "failed copy": (
        [{"kind": "copy_error", "at": 1}],
        {},
        ("RuntimeError", "aclrtMemcpy, error code is 507013"),
        False,
    ),
    # torch_npu has asked its streams to stop.
    "failed kernel": ([{"kind": "launch_error", "at": 1}], {}, ("RuntimeError", "error code is 507015"), False),
    "lost device": (
        [{"kind": "launch_error", "at": 1, "code": 507901}],
        {},
        ("RuntimeError", "error code is 507901"),
        False,
    ),
}
"""The fault, settings, what the user is told, and whether the next call succeeds as on a card."""


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_arrive_as_errors_of_torch_npu(run: Run, fault: str) -> None:
    faults, settings, told, goes_on = FAULTS[fault]
    answer = run("faults", fault, faults=faults, variables={"ACL_DEVICE_SYNC_TIMEOUT": "1"}, **settings)
    kind, text = answer["failed"]
    assert kind == told[0]
    assert all(part in text for part in told[1:]), text
    assert "107002" not in text  # what torch_npu would find if the thread's last error held every failure
    assert (answer["again"] is None) == goes_on, answer["again"]


@pytest.mark.parametrize("program", ["gradients", "attention", "device"])
def test_strict_library_has_nothing_to_report_but_what_torch_npu_leaves_open(
    strict_cann: Cann, run_strictly: Callable[..., tuple[Any, list[str]]], program: str
) -> None:
    arguments = ("910B", str(strict_cann.folder), str(strict_cann.built)) if program == "gradients" else ()
    answer, report = run_strictly(program, *arguments, devices=2)
    assert answer.get("wrong", []) == []
    # Its pools of streams, and events and memory that it caches, are never given back.
    assert [line for line in report if "leak: " not in line or "called from libtorch_npu.so" not in line] == []


def test_what_is_only_a_stub(cann: Cann) -> None:
    """Compilers of operators, profiling, virtual and shared memory, and kernels that a program brings itself."""
    kinds = (
        "Msprof",
        "aclop",
        "aclmdl",
        "aclCreate",
        "aclDestroy",
        "aclGetTensorDesc",
        "aclSetTensor",
        "aclnnInplaceCopy",
    )
    rest = {stub for stub in cann.stubs if not stub.startswith(kinds)}
    assert rest == {
        "aclrtBinaryGetFunction",
        "aclrtBinaryLoadFromData",
        "aclrtDeviceGetBareTgid",
        "aclrtFreePhysical",
        "aclrtGetFunctionAddr",
        "aclrtMallocPhysical",
        "aclrtMapMem",
        "aclrtMemExportToShareableHandle",
        "aclrtMemImportFromShareableHandle",
        "aclrtMemSetPidToShareableHandle",
        "aclrtProcessReport",
        "aclrtReleaseMemAddress",
        "aclrtReserveMemAddress",
        "aclrtUnmapMem",
        "rtDevBinaryRegister",
        "rtFunctionRegister",
        "rtGetC2cCtrlAddr",
        "rtKernelLaunch",
    }
