"""aclnnReplicationPad2dBackward."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

TENSORS = ("gradOutput", "self", "gradInput")
HUGE = 2**62

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 9, 8)),
    "self": Tensor((2, 3, 4, 5)),
    "padding": (1, 2, 3, 2),
    "gradInput": Tensor((2, 3, 4, 5)),
}
but = changing(VALID)


def call(
    self: tuple[int, ...],
    padding: tuple[int, ...],
    kind: DataType = DataType.FLOAT,
    grad: tuple[int, ...] | None = None,
) -> Arguments:
    if grad is None:
        grad = (*self[:-2], self[-2] + padding[2] + padding[3], self[-1] + padding[0] + padding[1])
    return {
        "gradOutput": Tensor(grad, kind),
        "self": Tensor(self, kind),
        "padding": padding,
        "gradInput": Tensor(self, kind),
    }


BF16 = DataType.BF16


ACCEPTED = {
    "as it is": {},
    "ND": but(*TENSORS, format_=Format.ND),
    "padding beyond the dims": call((2, 3, 4, 5), (50, 60, 70, 80)),
    "cropping": call((2, 3, 4, 5), (-1, -2, -3, 2)),
    "gradOutput cropped away": call((2, 3, 4, 5), (-2, -3, 0, 0)),
    "BF16 by 7": call((2, 3, 4, 5), (7, 7, 7, 7), BF16),
    "BF16 along the rows alone": call((2, 3, 4, 5), (70, 80, 0, 0), BF16),
    "strides": but("gradOutput", strides=(1, 2, 6, 54)),
}

REFUSED = {
    "null comes first": Refused({"gradOutput": Tensor((1,)), "gradInput": None}, "gradInput", NULL),
    "data type of self": Refused({"self": Tensor((2, 3, 4, 5), DataType.INT32)}, "self: expected data"),
    "data type of gradInput": Refused({"gradInput": Tensor((2, 3, 4, 5), DataType.INT32)}, "gradInput: expected data"),
    "gradOutput unlike self": Refused({"gradOutput": Tensor((2, 3, 9, 8), BF16)}, "gradOutput: expected the data"),
    "gradInput unlike self": Refused({"gradInput": Tensor((2, 3, 4, 5), BF16)}, "gradInput: expected the data"),
    "private formats": Refused(but(*TENSORS, format_=Format.NC1HWC0), "gradOutput: expected a plain"),
    "private format of self": Refused(but("self", format_=Format.FRACTAL_NZ), "self: expected a plain"),
    "format of gradOutput": Refused(but("gradOutput", format_=Format.ND), "gradOutput: expected the format"),
    "format of gradInput": Refused(but("gradInput", format_=Format.ND), "gradInput: expected the format"),
    "shape of gradInput": Refused({"gradInput": Tensor((2, 3, 5, 4))}, "gradInput: expected the shape"),
    "rank of gradOutput": Refused({"gradOutput": Tensor((3, 9, 8))}, "gradOutput: expected the rank"),
    "BF16 cropped": Refused(call((2, 3, 4, 5), (-1, 2, 0, 0), BF16), "padding: expected values from 0"),
    "BF16 by 8": Refused(call((2, 3, 4, 5), (8, 2, 1, 0), BF16), "padding: expected values from 0"),
    "BF16 by 8 rows": Refused(call((2, 3, 4, 5), (0, 0, 8, 0), BF16), "padding: expected values from 0"),
    "BF16 before gradOutput's shape": Refused(
        call((2, 3, 4, 5), (8, 2, 1, 0), BF16, (2, 3, 1, 1)), "padding: expected values"
    ),
    "height of gradOutput": Refused({"gradOutput": Tensor((2, 3, 8, 8))}, "gradOutput: expected dim 2"),
    "width of gradOutput": Refused({"gradOutput": Tensor((2, 3, 9, 9))}, "gradOutput: expected dim 3"),
    "sizes swapped": Refused({"padding": (3, 2, 1, 2)}, "gradOutput: expected dim 2"),
    "padding past 63 bits": Refused({"padding": (2**63 - 1, 2, 3, 2)}, "gradOutput: expected dim 3"),
    "batch of gradOutput": Refused({"gradOutput": Tensor((1, 3, 9, 8))}, "gradOutput: expected the first 2"),
    "channels of gradOutput": Refused({"gradOutput": Tensor((2, 4, 9, 8))}, "gradOutput: expected the first 2"),
    "a negative batch": Refused(call((-2, 3, 4, 5), (1, 2, 3, 2)), "gradOutput: expected no negative"),
    "rank 3 without channels": Refused(call((0, 4, 5), (1, 2, 3, 2)), "self: expected no empty"),
    "rank 3 cropped away": Refused(call((3, 4, 5), (-2, -3, 0, 0)), "gradOutput: expected no empty"),
    "rank 4 without channels": Refused(call((2, 0, 4, 5), (1, 2, 3, 2)), "self: expected no empty"),
    "rank 4 without rows": Refused(call((2, 3, 0, 5), (1, 2, 3, 2)), "self: expected no empty"),
    "rank 4 without columns": Refused(call((0, 3, 4, 0), (1, 2, 3, 2)), "self: expected no empty"),
    "too large to exist": Refused(call((1, 1, HUGE, HUGE), (0, 0, 0, 0)), "gradOutput: expected a view"),
    "before the storage": Refused(but("gradInput", offset=-1), "gradInput: expected a view"),
}
