"""The order and codes of the checks of aclnnAdaptiveAvgPool3dBackward: one row is one mutation of a valid call.

What follows from the operator table alone is in test_table_status.py. The valid call has one window for each plane,
which every product takes.
"""

from dataclasses import replace

import pytest

from tools.abi.acl import DataType, Format, Library

from .phase_one import NULL, Arguments, Refused, Tensor, assert_accepted, assert_refused

NAME = "aclnnAdaptiveAvgPool3dBackward"
HUGE = 2**62

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 1, 1, 1)),
    "self": Tensor((2, 3, 4, 6, 8)),
    "out": Tensor((2, 3, 4, 6, 8)),
}


def everything(**changes: object) -> Arguments:
    return {name: replace(tensor, **changes) for name, tensor in VALID.items()}


def shapes(grad: tuple[int, ...], rest: tuple[int, ...], kind: DataType = DataType.FLOAT) -> Arguments:
    return {"gradOutput": Tensor(grad, kind), "self": Tensor(rest, kind), "out": Tensor(rest, kind)}


def but(name: str, **changes: object) -> Arguments:
    """The valid tensor with something changed."""
    return {name: replace(VALID[name], **changes)}


ACCEPTED = {
    "as it is": {},
    "ND": everything(format_=Format.ND),
    "DOUBLE": everything(data_type=DataType.DOUBLE),
    "rank 4": shapes((3, 1, 1, 1), (3, 4, 6, 8)),
    "strides": but("out", strides=(1, 2, 6, 24, 144)),
}

REFUSED = {
    "null comes first": Refused({"gradOutput": Tensor((1,)), "out": None}, "out", NULL),
    "rank of gradOutput": Refused({"gradOutput": Tensor((3, 1, 1, 1))}, "gradOutput: expected the rank"),
    "rank of out": Refused({"out": Tensor((3, 4, 6, 8))}, "out: expected the rank"),
    "no channels": Refused(shapes((2, 0, 1, 1, 1), (2, 0, 4, 6, 8)), "self: expected no empty"),
    "no columns": Refused(shapes((2, 3, 1, 1, 1), (2, 3, 4, 6, 0)), "self: expected no empty"),
    "a negative dim": Refused(shapes((2, 3, 1, 1, 1), (2, 3, 4, -6, 8)), "self: expected no empty"),
    "shape of out": Refused({"out": Tensor((2, 3, 4, 6, 7))}, "out: expected the shape"),
    "batch of gradOutput": Refused({"gradOutput": Tensor((1, 3, 1, 1, 1))}, "gradOutput: expected the first 2"),
    "channels of gradOutput": Refused({"gradOutput": Tensor((2, 4, 1, 1, 1))}, "gradOutput: expected the first 2"),
    "no windows": Refused({"gradOutput": Tensor((2, 3, 1, 0, 1))}, "gradOutput: expected no empty"),
    "shapes before data types": Refused({"gradOutput": Tensor((1,), DataType.INT8)}, "gradOutput: expected the rank"),
    "gradOutput unlike self": Refused(but("self", data_type=DataType.FLOAT16), "self: expected the data"),
    "out unlike self": Refused(but("out", data_type=DataType.FLOAT16), "out: expected the data"),
    "format of gradOutput": Refused(but("gradOutput", format_=Format.ND), "gradOutput: expected the format"),
    "format of out": Refused(but("out", format_=Format.ND), "out: expected the format"),
    "private formats": Refused(everything(format_=Format.NDC1HWC0), "self: expected a plain"),
    "too large to exist": Refused(shapes((1, 1, 1, 1, 1), (1, 1, 2, HUGE, HUGE)), "out: expected a view"),
    "before the storage": Refused(but("out", offset=-1), "out: expected a view"),
}


@pytest.mark.parametrize("row", ACCEPTED)
def test_accepted(acl: Library, row: str) -> None:
    assert_accepted(acl, NAME, VALID, ACCEPTED[row])


@pytest.mark.parametrize("row", REFUSED)
def test_refused(acl: Library, row: str) -> None:
    assert_refused(acl, NAME, VALID, REFUSED[row])


def test_double_has_one_window(acl: Library) -> None:
    several = shapes((2, 3, 1, 1, 2), (2, 3, 4, 6, 8), DataType.DOUBLE)
    assert_refused(acl, NAME, several, Refused({}, "gradOutput: expected data"))


def test_there_is_no_empty_batch(acl: Library) -> None:
    assert_refused(acl, NAME, shapes((0, 3, 1, 1, 1), (0, 3, 4, 6, 8)), Refused({}, "self: expected no empty"))
