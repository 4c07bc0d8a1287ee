"""aclnnAdaptiveAvgPool3dBackward. The valid call has one window for each plane, which every product takes."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

HUGE = 2**62

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 1, 1, 1)),
    "self": Tensor((2, 3, 4, 6, 8)),
    "out": Tensor((2, 3, 4, 6, 8)),
}
but = changing(VALID)


def shapes(grad: tuple[int, ...], rest: tuple[int, ...], kind: DataType = DataType.FLOAT) -> Arguments:
    return {"gradOutput": Tensor(grad, kind), "self": Tensor(rest, kind), "out": Tensor(rest, kind)}


ACCEPTED = {
    "as it is": {},
    "ND": but(*VALID, format_=Format.ND),
    "DOUBLE": but(*VALID, data_type=DataType.DOUBLE),
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
    "private formats": Refused(but(*VALID, format_=Format.NDC1HWC0), "self: expected a plain"),
    "too large to exist": Refused(shapes((1, 1, 1, 1, 1), (1, 1, 2, HUGE, HUGE)), "out: expected a view"),
    "before the storage": Refused(but("out", offset=-1), "out: expected a view"),
}

OTHERWISE = {
    Product.ATLAS_A2: {
        "DOUBLE with two windows": Refused(
            shapes((2, 3, 1, 1, 2), (2, 3, 4, 6, 8), DataType.DOUBLE), "gradOutput: expected data"
        ),
        "no batch": Refused(shapes((0, 3, 1, 1, 1), (0, 3, 4, 6, 8)), "self: expected no empty"),
    },
}
