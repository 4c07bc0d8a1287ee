"""aclnnSwiGluGrad."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, TILING, Arguments, Refused, Tensor, changing

X, Y = Tensor((2, 6, 4), format_=Format.ND), Tensor((2, 3, 4), format_=Format.ND)
VALID: Arguments = {"yGrad": Y, "x": X, "dim": 1, "out": X}
but = changing(VALID)


def call(x: tuple[int, ...], y: tuple[int, ...], dim: int) -> Arguments:
    return {"yGrad": Tensor(y), "x": Tensor(x), "dim": dim, "out": Tensor(x)}


ACCEPTED = {
    "as it is": {},
    "from the end": {"dim": -2},
    "strides": but("x", strides=(1, 2, 12)) | but("out", strides=(24, 1, 6)),
}
REFUSED = {
    "null comes first": Refused({"out": None, **but("x", data_type=DataType.DOUBLE)}, "out must not be null", NULL),
    "x unlike yGrad": Refused(but("x", data_type=DataType.FLOAT16), "x: expected the data type of yGrad"),
    "out unlike yGrad": Refused(but("out", data_type=DataType.FLOAT16), "out: expected the data type of yGrad"),
    "dim beyond the last": Refused({"dim": 3}, "dim: expected from -3 to 2, got 3", TILING),
    "dim before the first": Refused({"dim": -4}, "dim: expected from -3 to 2, got -4", TILING),
    "an odd dim": Refused(call((2, 5, 4), (2, 2, 4), 1), "x: expected dim 1 to be even", TILING),
    # A device looks at the product with the sizes behind it, or not at all.
    "another yGrad": Refused(but("yGrad", shape=(2, 4, 4)), "yGrad: expected the shape of x with half of dim 1"),
    "yGrad like x": Refused(but("yGrad", shape=(2, 6, 4)), "yGrad: expected the shape of x with half of dim 1"),
    "shape of out": Refused(but("out", shape=(2, 3, 8)), "out: expected the shape of x"),
    "nothing": Refused(call((0, 6), (0, 3), 1), "x: expected elements", TILING),
    "a negative dim": Refused(call((-2, 6), (-2, 3), 1), "x: expected no negative"),
    "before the storage": Refused(but("out", offset=-1), "out: expected a view"),
}
