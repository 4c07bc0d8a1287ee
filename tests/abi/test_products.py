"""What differs from product to product. A process has one product, so each answers all questions in one process."""

import ctypes
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from . import test_adaptive_avg_pool2d_backward_status as adaptive_avg_pool2d
from . import test_max_pool2d_with_mask_backward_status as max_pool2d_with_mask
from . import test_max_unpool3d_backward_status as max_unpool3d
from . import test_replication_pad2d_backward_status as replication_pad2d
from . import test_roi_align_v2_backward_status as roi_align_v2
from .acl import Library
from .phase_one import INVALID, Refused, phase_one

OPERATORS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (adaptive_avg_pool2d, max_pool2d_with_mask, max_unpool3d, replication_pad2d, roi_align_v2)
}
HBM = 1
NO_BFLOAT16 = {"bfloat16": Refused({}, "gradOutput: expected data type")}

# SoC name, streams of a device, memory that an allocation of one byte takes.
PRODUCTS = {
    "910A": ("Ascend910A", 2048, 64),
    "910B": ("Ascend910B1", 1984, 64),
    "910_93": ("Ascend910_9391", 1984, 64),
    "310P": ("Ascend310P3", 1024, 64),
    "310B": ("Ascend310B1", 512, 64),
    "950": ("Ascend950PR_9589", 1984, 32),
}
MISSING = {
    "310P": {max_pool2d_with_mask.NAME, max_unpool3d.NAME, roi_align_v2.NAME},
    "310B": set(OPERATORS),
    "950": {max_pool2d_with_mask.NAME},
}
# Rows of the operators' own tables, which hold for 910B, that have another answer.
OTHERWISE = {
    ("910A", adaptive_avg_pool2d.NAME): NO_BFLOAT16,
    ("910A", max_pool2d_with_mask.NAME): max_pool2d_with_mask.ON_910A,
    ("310P", adaptive_avg_pool2d.NAME): NO_BFLOAT16,
}


def answer(acl: Library) -> None:
    """Runs in the product's process: prints what the tests below compare."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    free = free_bytes(acl)
    with acl.buffer(1):
        allocation = free - free_bytes(acl)
    streams = 1  # the default stream
    while acl.aclrtCreateStream(ctypes.byref(ctypes.c_void_p())) == 0:
        streams += 1
    answers = {"device": (acl.aclrtGetSocName().decode(), streams, allocation)}
    for name, module in OPERATORS.items():
        changes = module.ACCEPTED | {row: refused.changes for row, refused in module.REFUSED.items()}
        answers[name] = {row: phase_one(acl, name, module.VALID | change) for row, change in changes.items()}
    print(json.dumps(answers))


def free_bytes(acl: Library) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    acl.call("aclrtGetMemInfo", HBM, ctypes.byref(free), ctypes.byref(total))
    return free.value


@pytest.fixture(scope="package")
def answers(tmp_path_factory: pytest.TempPathFactory, run_program: Callable[..., list[str]]) -> Callable[[str], dict]:
    @cache
    def ask(product: str) -> dict:
        config = tmp_path_factory.mktemp("product") / f"{product}.json"
        config.write_text(json.dumps({"host": {"product": product}}))
        program = f"from abi.{Path(__file__).stem} import answer\nanswer(acl)\n"
        return json.loads(run_program(program, ACL_HOST_CONFIG=str(config))[-1])

    return ask


@pytest.mark.parametrize("product", PRODUCTS)
def test_device(answers: Callable[[str], dict], product: str) -> None:
    assert tuple(answers(product)["device"]) == PRODUCTS[product]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_operator(answers: Callable[[str], dict], product: str, name: str) -> None:
    module = OPERATORS[name]
    expected = {row: (0, "") for row in module.ACCEPTED}
    for row, refused in {**module.REFUSED, **OTHERWISE.get((product, name), {})}.items():
        expected[row] = (refused.code, refused.message)
    if name in MISSING.get(product, ()):
        expected = dict.fromkeys(expected, (INVALID, f"the product {product} does not support this operator"))
    got = {row: (code, message[: len(expected[row][1])]) for row, (code, message) in answers(product)[name].items()}
    assert got == expected


def test_950_names_the_operator_to_use_instead(answers: Callable[[str], dict]) -> None:
    _, message = answers("950")[max_pool2d_with_mask.NAME]["as it is"]
    assert "use aclnnMaxPool2dWithIndicesBackward" in message
