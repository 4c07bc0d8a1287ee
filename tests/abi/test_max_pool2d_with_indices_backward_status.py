"""The order and codes of the checks of aclnnMaxPool2dWithIndicesBackward: one row is one mutation of a valid call.

What follows from the operator table alone is in test_table_status.py; the checks that it shares with
aclnnMaxPool2dWithMaskBackward have more rows in test_max_pool2d_with_mask_backward_status.py.
"""

from dataclasses import replace

import pytest

from tools.abi.acl import DataType, Format, Library

from .phase_one import NULL, Arguments, Refused, Tensor, assert_accepted, assert_refused

NAME = "aclnnMaxPool2dWithIndicesBackward"
TENSORS = ("gradOutput", "self", "gradInput")

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 5, 6)),
    "self": Tensor((2, 3, 9, 12)),
    "indices": Tensor((2, 3, 5, 6), DataType.INT32),
    "kernelSize": (3, 2),
    "stride": (2, 2),
    "padding": (1, 0),
    "dilation": (1,),
    "ceilMode": False,
    "gradInput": Tensor((2, 3, 9, 12)),
}


def everything(**changes: object) -> Arguments:
    return {name: replace(VALID[name], **changes) for name in TENSORS}


def but(name: str, **changes: object) -> Arguments:
    """The valid tensor with something changed."""
    return {name: replace(VALID[name], **changes)}


def shapes(pooled: tuple[int, ...], rest: tuple[int, ...]) -> Arguments:
    return {
        "gradOutput": Tensor(pooled),
        "self": Tensor(rest),
        "indices": Tensor(pooled, DataType.INT32),
        "gradInput": Tensor(rest),
    }


ACCEPTED = {
    "as it is": {},
    "ND": everything(format_=Format.ND),
    "format of indices": but("indices", format_=Format.ND),
    "rank 3": shapes((3, 5, 6), (3, 9, 12)),
    "no batch": shapes((0, 3, 5, 6), (0, 3, 9, 12)),
    "strides": but("gradOutput", strides=(1, 2, 6, 30)) | but("indices", strides=(1, 2, 6, 30)),
}

REFUSED = {
    "null comes first": Refused({"self": Tensor((1,), DataType.INT8), "gradInput": None}, "gradInput", NULL),
    "kernelSize's length after null": Refused({"kernelSize": (), "indices": None}, "indices", NULL),
    "gradOutput unlike self": Refused(but("gradOutput", data_type=DataType.BF16), "gradOutput: expected the data"),
    "gradInput unlike self": Refused(but("gradInput", data_type=DataType.BF16), "gradInput: expected the data"),
    "INT8 indices": Refused(but("indices", data_type=DataType.INT8), "indices: expected data type INT32"),
    "format of gradOutput": Refused(but("gradOutput", format_=Format.ND), "gradOutput: expected the format"),
    "private formats": Refused(everything(format_=Format.NC1HWC0), "gradOutput: expected a plain"),
    "kernel of 0": Refused({"kernelSize": (3, 0)}, "kernelSize: expected values above 0"),
    "stride of 0": Refused({"stride": (0,)}, "stride: expected values above 0"),
    "padding of more than half a kernel": Refused({"padding": (1, 2)}, "padding: expected values from 0 to half"),
    "dilation of 0": Refused({"dilation": (0,)}, "dilation: expected values"),
    "shape of gradInput": Refused({"gradInput": Tensor((2, 3, 12, 9))}, "gradInput: expected the shape"),
    "no channels": Refused(shapes((2, 0, 5, 6), (2, 0, 9, 12)), "self: expected no empty dim"),
    "a window that does not fit": Refused({"kernelSize": (20, 2), "padding": (0, 0)}, "kernelSize: expected a window"),
    "height of gradOutput": Refused({"gradOutput": Tensor((2, 3, 4, 6))}, "gradOutput: expected shape [2, 3, 5, 6]"),
    "shape of indices": Refused({"indices": Tensor((2, 3, 6, 5), DataType.INT32)}, "indices: expected the shape"),
    "before the storage": Refused(but("indices", offset=-1), "indices: expected a view"),
}


@pytest.mark.parametrize("row", ACCEPTED)
def test_accepted(acl: Library, row: str) -> None:
    assert_accepted(acl, NAME, VALID, ACCEPTED[row])


@pytest.mark.parametrize("row", REFUSED)
def test_refused(acl: Library, row: str) -> None:
    assert_refused(acl, NAME, VALID, REFUSED[row])


def test_there_is_no_dilation_but_on_the_950(acl: Library) -> None:
    assert_refused(acl, NAME, VALID, Refused({"dilation": (1, 2)}, "dilation: expected values of 1"))


def test_planes_are_counted_in_int32(acl: Library) -> None:
    large = shapes((1, 1, 1, 1), (1, 1, 2**16, 2**16)) | {"kernelSize": (2**16,), "stride": (), "padding": (0,)}
    assert_refused(acl, NAME, VALID, Refused(large, "self: expected planes"))
