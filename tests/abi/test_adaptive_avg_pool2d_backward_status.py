"""The order and codes of the checks of aclnnAdaptiveAvgPool2dBackward: one row is one mutation of a valid call.

What follows from the operator table alone is in test_table_status.py.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tools.abi.acl import DataType, Format, Library

from .phase_one import NULL, Arguments, Refused, Tensor, assert_accepted, assert_refused

NAME = "aclnnAdaptiveAvgPool2dBackward"
HUGE = 2**62

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 2, 2)),
    "self": Tensor((2, 3, 6, 8)),
    "out": Tensor((2, 3, 6, 8)),
}


def everything(**changes: object) -> Arguments:
    return {name: replace(tensor, **changes) for name, tensor in VALID.items()}


def shapes(grad_output: tuple[int, ...], self: tuple[int, ...], out: tuple[int, ...]) -> Arguments:
    return {"gradOutput": Tensor(grad_output), "self": Tensor(self), "out": Tensor(out)}


ACCEPTED = {
    "as it is": {},
    "ND": everything(format_=Format.ND),
    "NHWC": everything(format_=Format.NHWC),
    "another format for out": {"out": replace(VALID["out"], format_=Format.ND)},
    "empty": shapes((1, 1, 0, 16), (1, 1, 32, 16), (1, 1, 32, 16)),
    "strides of an empty tensor": {
        **shapes((0, 3, 2, 2), (0, 3, 6, 8), (0, 3, 6, 8)),
        "gradOutput": Tensor((0, 3, 2, 2), strides=(HUGE, HUGE, HUGE, HUGE)),
    },
}

REFUSED = {
    "null comes first": Refused({"gradOutput": Tensor((1,)), "out": None}, "out", NULL),
    "ranks of gradOutput and self": Refused({"gradOutput": Tensor((3, 2, 2))}, "gradOutput"),
    "negative dim of gradOutput": Refused({"gradOutput": Tensor((2, 3, -2, 2))}, "gradOutput"),
    "negative dim of self": Refused({"self": Tensor((2, 3, 6, -8))}, "self"),
    "ranks of out and self": Refused({"out": Tensor((3, 6, 8))}, "out"),
    "batch of out": Refused({"out": Tensor((1, 3, 6, 8))}, "out"),
    "channels of out": Refused({"out": Tensor((2, 4, 6, 8))}, "out"),
    "batch of gradOutput": Refused({"gradOutput": Tensor((1, 3, 2, 2))}, "gradOutput"),
    "channels of gradOutput": Refused({"gradOutput": Tensor((2, 1, 2, 2))}, "gradOutput"),
    "data type of self": Refused({"self": replace(VALID["self"], data_type=DataType.DOUBLE)}, "self"),
    "data types differ": Refused({"gradOutput": Tensor((2, 3, 2, 2), DataType.FLOAT16)}, "gradOutput"),
    "formats differ": Refused({"gradOutput": Tensor((2, 3, 2, 2), format_=Format.ND)}, "gradOutput"),
    "private format": Refused(everything(format_=Format.NC1HWC0), "gradOutput"),
    "fractal format": Refused(everything(format_=Format.FRACTAL_NZ), "gradOutput"),
    "height of out": Refused({"out": Tensor((2, 3, 5, 8))}, "out"),
    "width of out": Refused({"out": Tensor((2, 3, 6, 9))}, "out"),
    "data type of out": Refused({"out": Tensor((2, 3, 6, 8), DataType.BF16)}, "out"),
    "size of gradOutput": Refused({"gradOutput": Tensor((2, 3, HUGE, HUGE))}, "gradOutput"),
    "size of out": Refused(shapes((1, 1, 2, 2), (1, 1, HUGE, HUGE), (1, 1, HUGE, HUGE)), "out"),
    "negative offset": Refused({"gradOutput": replace(VALID["gradOutput"], offset=-1)}, "gradOutput"),
    "before the storage": Refused({"out": replace(VALID["out"], strides=(-144, 48, 8, 1))}, "out"),
    "offset past 63 bits": Refused({"out": replace(VALID["out"], offset=2**63 - 1)}, "out"),
}


@pytest.mark.parametrize("row", ACCEPTED)
def test_accepted(acl: Library, row: str) -> None:
    assert_accepted(acl, NAME, VALID, ACCEPTED[row])


@pytest.mark.parametrize("row", REFUSED)
def test_refused(acl: Library, row: str) -> None:
    assert_refused(acl, NAME, VALID, REFUSED[row])


@pytest.mark.needs("texts")
def test_before_init_there_is_no_product(run_program: Callable[..., list[str]]) -> None:
    lines = run_program(
        "size, executor = ctypes.c_uint64(), ctypes.c_void_p()\n"
        "with acl.describe((1, 2, 2)) as tensor:\n"
        f"    print(acl.{NAME}GetWorkspaceSize(tensor, tensor, tensor, ctypes.byref(size), ctypes.byref(executor)))\n"
        "print(acl.message())\n"
    )
    assert lines[0] == "361001"
    assert "aclInit" in lines[1]
