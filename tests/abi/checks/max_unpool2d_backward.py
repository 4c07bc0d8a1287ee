"""aclnnMaxUnpool2dBackward."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

NO_KERNEL = 561003

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 6, 8)),
    "self": Tensor((2, 3, 3, 4)),
    "indices": Tensor((2, 3, 3, 4), DataType.INT64),
    "outputSize": (6, 8),
    "out": Tensor((2, 3, 3, 4)),
}
but = changing(VALID)


def shapes(grad: tuple[int, ...], rest: tuple[int, ...]) -> Arguments:
    return {
        "gradOutput": Tensor(grad), "self": Tensor(rest), "indices": Tensor(rest, DataType.INT64),
        "outputSize": grad[-2:], "out": Tensor(rest),
    }  # fmt: skip


TENSORS = ("gradOutput", "self", "out")

ACCEPTED = {
    "as it is": {},
    "INT32 indices": but("indices", data_type=DataType.INT32),
    "BOOL": but(*TENSORS, data_type=DataType.BOOL),
    "fewer cells than self": shapes((2, 3, 1, 1), (2, 3, 3, 4)),
    "formats of any kind": but("gradOutput", format_=Format.NC1HWC0) | but("out", format_=Format.ND),
    "out with strides": but("out", strides=(1, 2, 6, 18)),
    "no channels": shapes((2, 0, 6, 8), (2, 0, 3, 4)),
    "no columns": shapes((2, 3, 6, 8), (2, 3, 3, 0)),
    "both empty": shapes((2, 3, 0, 8), (2, 3, 3, 0)),
}

REFUSED = {
    "null comes first": Refused({"gradOutput": Tensor((1,)), "out": None}, "out", NULL),
    "data type of out": Refused(but("out", data_type=DataType.DOUBLE), "out: expected data"),
    "a float for an integer": Refused(but("out", data_type=DataType.INT32), "out: expected a data type that FLOAT"),
    "an integer for BOOL": Refused(
        but(*TENSORS, data_type=DataType.INT8) | but("out", data_type=DataType.BOOL), "out: expected a data type"
    ),
    "gradOutput unlike self": Refused(but("gradOutput", data_type=DataType.FLOAT16), "gradOutput: expected the data"),
    "a cast, which is not implemented": Refused(but("out", data_type=DataType.FLOAT16), "out: no kernel", NO_KERNEL),
    "rank of gradOutput": Refused({"gradOutput": Tensor((3, 6, 8))}, "gradOutput: expected the rank"),
    "batch of gradOutput": Refused({"gradOutput": Tensor((1, 3, 6, 8))}, "gradOutput: expected the first 2"),
    "channels of gradOutput": Refused({"gradOutput": Tensor((2, 4, 6, 8))}, "gradOutput: expected the first 2"),
    "shape of indices": Refused({"indices": Tensor((2, 3, 4, 3), DataType.INT64)}, "indices: expected the shape"),
    "shape of out": Refused({"out": Tensor((2, 3, 4, 3))}, "out: expected the shape"),
    "height of gradOutput": Refused({"outputSize": (5, 8)}, "gradOutput: expected dim 2"),
    "width of gradOutput": Refused({"outputSize": (6, 9)}, "gradOutput: expected dim 3"),
    "no gradients": Refused(shapes((2, 3, 0, 8), (2, 3, 3, 4)), "gradOutput: expected elements"),
    "before the storage": Refused(but("out", offset=-1), "out: expected a view"),
}
