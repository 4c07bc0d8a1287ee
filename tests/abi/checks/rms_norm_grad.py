"""aclnnRmsNormGrad, which CANN generates: the tiling checks the shapes."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, TILING, Arguments, Refused, Tensor, changing

INPUT, SAVED, GAMMA = (2, 3, 4, 5), (2, 3, 1, 1), (4, 5)
HUGE = 2**62
FLOAT16, BF16 = DataType.FLOAT16, DataType.BF16

VALID: Arguments = {
    "dy": Tensor(INPUT, format_=Format.ND),
    "x": Tensor(INPUT, format_=Format.ND),
    "rstd": Tensor(SAVED, format_=Format.ND),
    "gamma": Tensor(GAMMA, format_=Format.ND),
    "dxOut": Tensor(INPUT, format_=Format.ND),
    "dgammaOut": Tensor(GAMMA, format_=Format.ND),
}
but = changing(VALID)


def call(leading: tuple[int, ...], normalized: tuple[int, ...]) -> Arguments:
    input, gamma = Tensor((*leading, *normalized)), Tensor(normalized)
    return {**dict.fromkeys(("dy", "x", "dxOut"), input), "rstd": Tensor(leading), "gamma": gamma, "dgammaOut": gamma}


NARROW = but("dy", "x", "dxOut", data_type=FLOAT16)

ACCEPTED = {
    "rows of 32 bytes": call((3,), (8,)),
    "one row": call((), (8,)),
    "eight dims": call((1, 1, 1, 1, 1, 1), (1, 8)),
    "as many rows as no memory holds": call((2**31,), (8,)),
    "strides": call((4,), (8,)) | {"x": Tensor((4, 8), strides=(1, 4))},
    "each of float16": {name: Tensor(each.shape, FLOAT16) for name, each in call((2,), (16,)).items()}
    | {"rstd": Tensor((2,)), "dgammaOut": Tensor((16,))},
}
ON_MOST = {
    "as it is": {},
    "a gamma of float32": NARROW,
    "a last dim of 1": call((3,), (1,)),
}

REFUSED = {
    "null comes first": Refused({"dgammaOut": None, **but("dy", data_type=DataType.INT32)}, "dgammaOut must not", NULL),
    "types before shapes": Refused(but("dy", data_type=DataType.DOUBLE, shape=(2,)), "dy: expected data type"),
    "types differ": Refused(but("x", data_type=FLOAT16), "x: expected the data type of dy"),
    "type of dxOut": Refused(but("dxOut", data_type=FLOAT16), "dxOut: expected the data type of dy"),
    "type of rstd": Refused(but("rstd", data_type=FLOAT16), "rstd: expected data type"),
    "type of dgammaOut": Refused(but("dgammaOut", data_type=FLOAT16), "dgammaOut: expected data type"),
    "narrow gamma": Refused(but("gamma", data_type=FLOAT16), "gamma: expected the data type of dy"),
    "shape of dy": Refused(but("dy", shape=(6, 4, 5)), "dy: expected the shape of x", TILING),
    "shape of dxOut": Refused(but("dxOut", shape=(6, 4, 5)), "dxOut: expected the shape of x", TILING),
    "shape of gamma": Refused(but("gamma", "dgammaOut", shape=(5, 4)), "gamma: expected the last dims", TILING),
    "shape of dgammaOut": Refused(but("dgammaOut", shape=(20,)), "dgammaOut: expected the shape of gamma", TILING),
    "shape of rstd": Refused(but("rstd", shape=(6,)), "rstd: expected the leading dims", TILING),
    "too many rstd": Refused(but("rstd", shape=(2, 3, 4)), "rstd: expected the leading dims", TILING),
    "rank of 9": Refused(call((1,) * 8, (8,)), "x: expected 1 to 8 dims", TILING),
    "a negative dim": Refused(call((-2,), (8,)), "x: expected 1 to 8 dims", TILING),
    "no columns": Refused(call((2,), (0,)), "x: expected elements", TILING),
    "no rows": Refused(call((0,), (8,)), "x: expected elements", TILING),
    "too large to exist": Refused(call((HUGE,), (8,)), ""),
    "before the storage": Refused(call((3,), (8,)) | {"dxOut": Tensor((3, 8), offset=-1)}, "dxOut: expected a view"),
}
_OF_310P = {
    "as it is": Refused(ON_MOST["as it is"], "x: expected a last dim of at least 32 bytes", TILING),
    "a gamma of float32": Refused(NARROW, "gamma: expected the data type of dy"),
    "a last dim of 1": Refused(ON_MOST["a last dim of 1"], "x: expected a last dim of at least 32 bytes", TILING),
}
OTHERWISE = {
    Product.ATLAS_INFERENCE: _OF_310P,
    Product.ASCEND_950: {"no rows": Refused(call((0,), (8,)), "", 0)},
}
ACCEPTED |= ON_MOST
