"""aclnnMaxPool2dWithIndicesBackward. Checks that it shares with the operator on masks have more rows there."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

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
but = changing(VALID)


def shapes(pooled: tuple[int, ...], rest: tuple[int, ...]) -> Arguments:
    return {
        "gradOutput": Tensor(pooled),
        "self": Tensor(rest),
        "indices": Tensor(pooled, DataType.INT32),
        "gradInput": Tensor(rest),
    }


ACCEPTED = {
    "as it is": {},
    "ND": but(*TENSORS, format_=Format.ND),
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
    "private formats": Refused(but(*TENSORS, format_=Format.NC1HWC0), "gradOutput: expected a plain"),
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

OTHERWISE = {
    Product.ATLAS_A2: {
        "dilation of 2": Refused({"dilation": (1, 2)}, "dilation: expected values of 1"),
        "a plane beyond INT32": Refused(
            shapes((1, 1, 1, 1), (1, 1, 2**16, 2**16)) | {"kernelSize": (2**16,), "stride": (), "padding": (0,)},
            "self: expected planes",
        ),
    },
}
