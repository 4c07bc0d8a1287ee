"""aclnnAvgPool2dBackward. The valid call has a precision that every product takes for FLOAT."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

TENSORS = ("gradOutput", "self", "gradInput")
HUGE = 2**62

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 5, 6)),
    "self": Tensor((2, 3, 9, 12)),
    "kernelSize": (3, 2),
    "stride": (2, 2),
    "padding": (1, 0),
    "ceilMode": False,
    "countIncludePad": True,
    "divisorOverride": 0,
    "cubeMathType": 1,
    "gradInput": Tensor((2, 3, 9, 12)),
}
but = changing(VALID)


def shapes(grad: tuple[int, ...], rest: tuple[int, ...], format_: Format = Format.NCHW) -> Arguments:
    return {
        "gradOutput": Tensor(grad, format_=format_),
        "self": Tensor(rest, format_=format_),
        "gradInput": Tensor(rest, format_=format_),
    }


ACCEPTED = {
    "as it is": {},
    "another data type of self": but("self", data_type=DataType.FLOAT16),
    "rank 3 as NCL": shapes((3, 5, 6), (3, 9, 12), Format.NCL),
    "stride of kernelSize": {**shapes((2, 3, 3, 6), (2, 3, 9, 12)), "stride": (), "padding": (0,)},
    "no batch": shapes((0, 3, 5, 6), (0, 3, 9, 12)),
    "gradOutput empty, of any shape": shapes((2, 0, 50, 60), (2, 3, 9, 12)),
    "a huge stride": {**shapes((2, 3, 1, 1), (2, 3, 9, 12)), "stride": (HUGE,)},
    "a negative divisor": {"divisorOverride": -255},
    "strides": but("gradOutput", strides=(1, 2, 6, 30)),
}

REFUSED = {
    "null comes first": Refused({"gradOutput": Tensor((1,)), "gradInput": None}, "gradInput", NULL),
    "data type of self": Refused(but("self", data_type=DataType.DOUBLE), "self: expected data"),
    "gradInput unlike gradOutput": Refused(
        but("gradInput", data_type=DataType.FLOAT16), "gradInput: expected the data"
    ),
    "ND": Refused(but(*TENSORS, format_=Format.ND), "gradOutput: expected format NCHW"),
    "private formats": Refused(but(*TENSORS, format_=Format.NC1HWC0), "gradOutput: expected format NCHW"),
    "rank 4 as NCL": Refused(but("gradInput", format_=Format.NCL), "gradInput: expected format NCHW"),
    "rank of gradInput": Refused({"gradInput": Tensor((3, 9, 12))}, "gradInput: expected the rank"),
    "a negative dim": Refused(shapes((-2, 3, 5, 6), (-2, 3, 9, 12)), "gradOutput: expected no negative"),
    "kernel of 0": Refused({"kernelSize": (3, 0)}, "kernelSize: expected values above 0"),
    "stride of 0": Refused({"stride": (0,)}, "stride: expected values above 0"),
    "padding of more than half a kernel": Refused({"padding": (1, 2)}, "padding: expected values from 0 to half"),
    "negative padding": Refused({"padding": (-1,)}, "padding: expected values from 0 to half"),
    "precision of 4": Refused({"cubeMathType": 4}, "cubeMathType: expected a value from 0 to 3"),
    "negative precision": Refused({"cubeMathType": -1}, "cubeMathType: expected a value from 0 to 3"),
    "shape of gradInput": Refused({"gradInput": Tensor((2, 3, 12, 9))}, "gradInput: expected the shape"),
    "batch of gradOutput": Refused({"gradOutput": Tensor((1, 3, 5, 6))}, "gradOutput: expected shape [2, 3, 5, 6]"),
    "height of gradOutput": Refused({"gradOutput": Tensor((2, 3, 4, 6))}, "gradOutput: expected shape [2, 3, 5, 6]"),
    "a window that does not fit": Refused({"kernelSize": (20, 2)}, "gradOutput: expected shape [2, 3, 0, 6]"),
    "too large to exist": Refused(
        {**shapes((1, 1, HUGE, HUGE), (1, 1, HUGE, HUGE)), "kernelSize": (1,), "stride": (), "padding": (0,)},
        "gradOutput: expected a view",
    ),
    "before the storage": Refused(but("gradInput", offset=-1), "gradInput: expected a view"),
}
