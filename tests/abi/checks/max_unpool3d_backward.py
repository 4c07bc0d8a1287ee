"""aclnnMaxUnpool3dBackward."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 4, 6, 8)),
    "self": Tensor((2, 3, 2, 3, 4)),
    "indices": Tensor((2, 3, 2, 3, 4), DataType.INT64),
    "outputSize": (4, 6, 8),
    "stride": (2, 2, 2),
    "padding": (0, 0, 0),
    "out": Tensor((2, 3, 2, 3, 4)),
}
but = changing(VALID)


def shapes(grad: tuple[int, ...], rest: tuple[int, ...]) -> Arguments:
    return {
        "gradOutput": Tensor(grad),
        "self": Tensor(rest),
        "indices": Tensor(rest, DataType.INT64),
        "out": Tensor(rest),
    }


ACCEPTED = {
    "as it is": {},
    "as many cells in another shape": {**shapes((1, 1, 1, 24), (1, 2, 3, 4)), "outputSize": (1, 1, 24)},
    "huge padding and stride": {"padding": (2**62, 0, 0), "stride": (2**62, 1, 1)},
    "formats of any kind": but("gradOutput", format_=Format.NDC1HWC0) | but("self", format_=Format.ND),
    "strided inputs": but("gradOutput", strides=(1, 2, 6, 24, 144)) | but("indices", strides=(1, 2, 6, 12, 36)),
    "out behind an offset": but("out", offset=5),
}

REFUSED = {
    "null comes first": Refused({"gradOutput": Tensor((1,)), "out": None}, "out", NULL),
    "out not contiguous": Refused(but("out", strides=(1, 2, 6, 12, 36)), "out: expected contiguous"),
    "contiguity before data types": Refused(
        but("out", strides=(1, 2, 6, 12, 36)) | {"indices": Tensor((1,))}, "out: expected contiguous"
    ),
    "data type of self": Refused(but("self", data_type=DataType.BF16), "self: expected data"),
    "data type of out": Refused(but("out", data_type=DataType.BOOL), "out: expected data"),
    "data type unlike self": Refused(but("gradOutput", data_type=DataType.DOUBLE), "gradOutput"),
    "out unlike self": Refused(but("out", data_type=DataType.INT32), "out"),
    "rank of indices": Refused({"indices": Tensor((3, 2, 3, 4), DataType.INT64)}, "indices: expected the rank"),
    "rank of out": Refused({"out": Tensor((3, 2, 3, 4))}, "out: expected the rank"),
    "shape of indices": Refused({"indices": Tensor((2, 3, 2, 4, 3), DataType.INT64)}, "indices: expected the shape"),
    "shape of out": Refused({"out": Tensor((2, 3, 2, 3, 5))}, "out: expected the shape"),
    "no channels": Refused(shapes((2, 0, 4, 6, 8), (2, 0, 2, 3, 4)), "self: expected no empty dim"),
    "no columns": Refused(shapes((2, 3, 4, 6, 8), (2, 3, 2, 3, 0)), "self: expected no empty dim"),
    "a negative dim": Refused(shapes((2, 3, 4, 6, 8), (2, -3, 2, 3, 4)), "self: expected no empty dim"),
    "a negative batch": Refused(shapes((-2, 3, 4, 6, 8), (-2, 3, 2, 3, 4)), "self: expected no negative dim"),
    "stride of 0": Refused({"stride": (1, 0, 1)}, "stride: expected values above 0"),
    "negative stride": Refused({"stride": (1, 1, -1)}, "stride: expected values above 0"),
    "outputSize of 0": Refused({"outputSize": (0, 6, 8)}, "outputSize: expected values above 0"),
    "outputSize too small": Refused({"outputSize": (1, 1, 23)}, "outputSize: expected room"),
    "outputSize past 63 bits": Refused({"outputSize": (2**31, 2**31, 2**31)}, "there is no tensor"),
    "rank of gradOutput": Refused({"gradOutput": Tensor((3, 4, 6, 8))}, "gradOutput: expected the rank"),
    "gradOutput unlike outputSize": Refused({"gradOutput": Tensor((2, 3, 4, 8, 6))}, "gradOutput: expected the last"),
    "batch of gradOutput": Refused({"gradOutput": Tensor((1, 3, 4, 6, 8))}, "gradOutput: expected the first 2"),
    "channels of gradOutput": Refused({"gradOutput": Tensor((2, 4, 4, 6, 8))}, "gradOutput: expected the first 2"),
    "batch of gradOutput, rank 4": Refused({**shapes((2, 4, 6, 8), (3, 2, 3, 4))}, "gradOutput: expected the first 1"),
    "before the storage": Refused(but("indices", offset=-1), "indices: expected a view"),
}
