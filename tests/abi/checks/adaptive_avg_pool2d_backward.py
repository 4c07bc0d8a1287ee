"""aclnnAdaptiveAvgPool2dBackward."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

HUGE = 2**62

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 2, 2)),
    "self": Tensor((2, 3, 6, 8)),
    "out": Tensor((2, 3, 6, 8)),
}
but = changing(VALID)


def shapes(grad_output: tuple[int, ...], self: tuple[int, ...], out: tuple[int, ...]) -> Arguments:
    return {"gradOutput": Tensor(grad_output), "self": Tensor(self), "out": Tensor(out)}


ACCEPTED = {
    "as it is": {},
    "ND": but(*VALID, format_=Format.ND),
    "NHWC": but(*VALID, format_=Format.NHWC),
    "another format for out": but("out", format_=Format.ND),
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
    "data type of self": Refused(but("self", data_type=DataType.DOUBLE), "self"),
    "data types differ": Refused({"gradOutput": Tensor((2, 3, 2, 2), DataType.FLOAT16)}, "gradOutput"),
    "formats differ": Refused({"gradOutput": Tensor((2, 3, 2, 2), format_=Format.ND)}, "gradOutput"),
    "private format": Refused(but(*VALID, format_=Format.NC1HWC0), "gradOutput"),
    "fractal format": Refused(but(*VALID, format_=Format.FRACTAL_NZ), "gradOutput"),
    "height of out": Refused({"out": Tensor((2, 3, 5, 8))}, "out"),
    "width of out": Refused({"out": Tensor((2, 3, 6, 9))}, "out"),
    "data type of out": Refused({"out": Tensor((2, 3, 6, 8), DataType.BF16)}, "out"),
    "size of gradOutput": Refused({"gradOutput": Tensor((2, 3, HUGE, HUGE))}, "gradOutput"),
    "size of out": Refused(shapes((1, 1, 2, 2), (1, 1, HUGE, HUGE), (1, 1, HUGE, HUGE)), "out"),
    "negative offset": Refused(but("gradOutput", offset=-1), "gradOutput"),
    "before the storage": Refused(but("out", strides=(-144, 48, 8, 1)), "out"),
    "offset past 63 bits": Refused(but("out", offset=2**63 - 1), "out"),
}
