"""Every documented check of aclnnAdaptiveAvgPool2dBackward: one row is one mutation of a valid call."""

import ctypes
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from .acl import DataType, Format, Library

NAME = "aclnnAdaptiveAvgPool2dBackward"
NULL, INVALID = 161001, 161002
HUGE = 2**62


@dataclass(frozen=True)
class Tensor:
    """The arguments of aclCreateTensor."""

    shape: tuple[int, ...]
    data_type: DataType = DataType.FLOAT
    format_: Format = Format.NCHW
    strides: tuple[int, ...] | None = None
    offset: int = 0


VALID = {
    "gradOutput": Tensor((2, 3, 2, 2)),
    "self": Tensor((2, 3, 6, 8)),
    "out": Tensor((2, 3, 6, 8)),
}


def everything(**changes: object) -> dict[str, Tensor]:
    return {name: replace(tensor, **changes) for name, tensor in VALID.items()}


def shapes(grad_output: tuple[int, ...], self: tuple[int, ...], out: tuple[int, ...]) -> dict[str, Tensor]:
    return {"gradOutput": Tensor(grad_output), "self": Tensor(self), "out": Tensor(out)}


ACCEPTED = {
    "as it is": {},
    "float16": everything(data_type=DataType.FLOAT16),
    "bfloat16": everything(data_type=DataType.BF16),
    "ND": everything(format_=Format.ND),
    "NHWC": everything(format_=Format.NHWC),
    "another format for out": {"out": replace(VALID["out"], format_=Format.ND)},
    "rank 3": shapes((3, 2, 2), (3, 6, 8), (3, 6, 8)),
    "gradOutput larger than self": {"gradOutput": Tensor((2, 3, 9, 20))},
    "empty": shapes((1, 1, 0, 16), (1, 1, 32, 16), (1, 1, 32, 16)),
    "strides of an empty tensor": {
        **shapes((0, 3, 2, 2), (0, 3, 6, 8), (0, 3, 6, 8)),
        "gradOutput": Tensor((0, 3, 2, 2), strides=(HUGE, HUGE, HUGE, HUGE)),
    },
}

REFUSED = {
    "gradOutput null": ({"gradOutput": None}, NULL, "gradOutput"),
    "self null": ({"self": None}, NULL, "self"),
    "out null": ({"out": None}, NULL, "out"),
    "null comes first": ({"gradOutput": Tensor((1,)), "out": None}, NULL, "out"),
    "ranks of gradOutput and self": ({"gradOutput": Tensor((3, 2, 2))}, INVALID, "gradOutput"),
    "negative dim of gradOutput": ({"gradOutput": Tensor((2, 3, -2, 2))}, INVALID, "gradOutput"),
    "negative dim of self": ({"self": Tensor((2, 3, 6, -8))}, INVALID, "self"),
    "rank 2": (shapes((2, 2), (6, 8), (6, 8)), INVALID, "out"),
    "rank 5": (shapes((1, 2, 3, 2, 2), (1, 2, 3, 6, 8), (1, 2, 3, 6, 8)), INVALID, "out"),
    "ranks of out and self": ({"out": Tensor((3, 6, 8))}, INVALID, "out"),
    "batch of out": ({"out": Tensor((1, 3, 6, 8))}, INVALID, "out"),
    "channels of out": ({"out": Tensor((2, 4, 6, 8))}, INVALID, "out"),
    "batch of gradOutput": ({"gradOutput": Tensor((1, 3, 2, 2))}, INVALID, "gradOutput"),
    "channels of gradOutput": ({"gradOutput": Tensor((2, 1, 2, 2))}, INVALID, "gradOutput"),
    "data type": (everything(data_type=DataType.DOUBLE), INVALID, "gradOutput"),
    "data type of integers": (everything(data_type=DataType.INT32), INVALID, "gradOutput"),
    "data type of self": ({"self": replace(VALID["self"], data_type=DataType.DOUBLE)}, INVALID, "self"),
    "data types differ": ({"gradOutput": Tensor((2, 3, 2, 2), DataType.FLOAT16)}, INVALID, "gradOutput"),
    "formats differ": ({"gradOutput": Tensor((2, 3, 2, 2), format_=Format.ND)}, INVALID, "gradOutput"),
    "private format": (everything(format_=Format.NC1HWC0), INVALID, "gradOutput"),
    "fractal format": (everything(format_=Format.FRACTAL_NZ), INVALID, "gradOutput"),
    "height of out": ({"out": Tensor((2, 3, 5, 8))}, INVALID, "out"),
    "width of out": ({"out": Tensor((2, 3, 6, 9))}, INVALID, "out"),
    "data type of out": ({"out": Tensor((2, 3, 6, 8), DataType.BF16)}, INVALID, "out"),
    "size of gradOutput": ({"gradOutput": Tensor((2, 3, HUGE, HUGE))}, INVALID, "gradOutput"),
    "size of out": (shapes((1, 1, 2, 2), (1, 1, HUGE, HUGE), (1, 1, HUGE, HUGE)), INVALID, "out"),
    "negative offset": ({"gradOutput": replace(VALID["gradOutput"], offset=-1)}, INVALID, "gradOutput"),
    "before the storage": ({"out": replace(VALID["out"], strides=(-144, 48, 8, 1))}, INVALID, "out"),
    "offset past 63 bits": ({"out": replace(VALID["out"], offset=2**63 - 1)}, INVALID, "out"),
}


def phase_one(acl: Library, changes: dict[str, Tensor | None]) -> int:
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    with ExitStack() as stack:
        handles = []
        for tensor in {**VALID, **changes}.values():
            handles.append(
                None
                if tensor is None
                else stack.enter_context(
                    acl.describe(
                        tensor.shape,
                        tensor.data_type,
                        format_=tensor.format_,
                        strides=tensor.strides,
                        offset=tensor.offset,
                    )
                )
            )
        code = getattr(acl, NAME + "GetWorkspaceSize")(*handles, ctypes.byref(size), ctypes.byref(executor))
    if code == 0:
        acl.call("aclDestroyAclOpExecutor", executor)
    assert (executor.value is not None) == (code == 0)
    return code


@pytest.mark.parametrize("row", ACCEPTED)
def test_accepted(acl: Library, row: str) -> None:
    assert phase_one(acl, ACCEPTED[row]) == 0, acl.message()


@pytest.mark.parametrize("row", REFUSED)
def test_refused(acl: Library, row: str) -> None:
    changes, code, parameter = REFUSED[row]
    assert phase_one(acl, changes) == code
    function, argument = acl.message().split(": ", 1)
    assert function == NAME + "GetWorkspaceSize"
    assert argument.startswith(parameter)


def test_before_init_there_is_no_product(run_program: Callable[..., list[str]]) -> None:
    lines = run_program(
        "size, executor = ctypes.c_uint64(), ctypes.c_void_p()\n"
        "with acl.describe((1, 2, 2)) as tensor:\n"
        f"    print(acl.{NAME}GetWorkspaceSize(tensor, tensor, tensor, ctypes.byref(size), ctypes.byref(executor)))\n"
        "print(acl.message())\n"
    )
    assert lines[0] == "361001"
    assert "aclInit" in lines[1]
