"""aclnnSoftmaxBackward and aclnnLogSoftmaxBackward, whose checks differ in their order."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Order, Refused, Tensor, changing

SHAPE = (2, 3, 4)
HUGE = 2**62
ALL = ("gradOutput", "output", "out")
VALID: Arguments = {
    "gradOutput": Tensor(SHAPE, format_=Format.ND),
    "output": Tensor(SHAPE, format_=Format.ND),
    "dim": 1,
    "out": Tensor(SHAPE, format_=Format.ND),
}
but = changing(VALID)

ACCEPTED = {
    "as it is": {},
    "other formats": but("gradOutput", format_=Format.NCHW) | but("out", format_=Format.FRACTAL_NZ),
    "the last axis": {"dim": 2},
    "the first axis from the last": {"dim": -3},
    "a scalar": but(*ALL, shape=()) | {"dim": 0},
    "a scalar from the last": but(*ALL, shape=()) | {"dim": -1},
    # A device casts it.
    "out of another type": but("out", data_type=DataType.BF16),
    "rows of no elements": but(*ALL, shape=(2, 0)),
    "as many rows as no memory holds": but(*ALL, shape=(2**31, 1)),
    "strides": but("gradOutput", strides=(1, 2, 6)) | but("out", strides=(12, 1, 3)),
}
UNCHECKED: Arguments = but("gradOutput", shape=(0, 3), data_type=DataType.INT32) | {"dim": 9}

REFUSED = {
    "null comes first": Refused({"output": None, **but("out", data_type=DataType.INT32)}, "output must not be", NULL),
    "types before shapes": Refused(
        but("gradOutput", data_type=DataType.INT32, shape=(1,)), "gradOutput: expected data"
    ),
    "types differ": Refused(but("output", data_type=DataType.FLOAT16), "output: expected the data type of gradOutput"),
    "an axis beyond the last": Refused({"dim": 3}, "dim: expected -3 to 2"),
    "an axis before the first": Refused({"dim": -4}, "dim: expected -3 to 2"),
    "an axis of a scalar": Refused(but(*ALL, shape=()) | {"dim": 1}, "dim: expected -1 to 0"),
    "shape of output": Refused(but("output", shape=(2, 4, 3)), "output: expected the shape of gradOutput"),
    "shape of out": Refused(but("out", shape=(6, 4)), "out: expected the shape of gradOutput"),
    "rank of 9": Refused(but(*ALL, shape=(1,) * 9), "gradOutput: expected a rank of at most 8"),
    "a negative dim": Refused(but(*ALL, shape=(-2, 3)), "gradOutput: expected no negative"),
    "too large to exist": Refused(but(*ALL, shape=(HUGE, 4)), ""),
    "before the storage": Refused(but("out", offset=-1), "out: expected a view"),
}
BOTH = {"dim": 3, **but("output", shape=(2, 4, 3))}


def _order(first: str) -> Order:
    """`first` names what is checked first, the axis or the shapes."""
    return Order(
        VALID,
        {**ACCEPTED, "empty and else wrong": UNCHECKED},
        {**REFUSED, "axis and shape": Refused(BOTH, first)},
        {Product.ASCEND_950: {"empty and else wrong": Refused(UNCHECKED, "gradOutput: expected data type")}},
    )


ORDERS = {"softmax_backward": _order("dim: expected"), "log_softmax_backward": _order("output: expected the shape")}
