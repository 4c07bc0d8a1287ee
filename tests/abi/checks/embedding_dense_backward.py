"""aclnnEmbeddingDenseBackward."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

VALID: Arguments = {
    "grad": Tensor((2, 3, 8), format_=Format.ND),
    "indices": Tensor((2, 3), DataType.INT64, Format.ND),
    "numWeights": 5,
    "paddingIdx": 2**64 - 1,
    "scaleGradByFreq": False,
    "out": Tensor((5, 8), format_=Format.ND),
}
but = changing(VALID)


def call(indices: tuple[int, ...], weights: int, columns: int) -> Arguments:
    return {
        "grad": Tensor((*indices, columns)),
        "indices": Tensor(indices, DataType.INT64),
        "numWeights": weights,
        "out": Tensor((weights, columns)),
    }


ACCEPTED = {
    "as it is": {},
    "a padding": {"paddingIdx": 3},
    "a padding that is no row": {"paddingIdx": 7},
    "gradients of another type": but("out", data_type=DataType.FLOAT16),
    "other shapes of as many rows": but("grad", shape=(6, 8)) | but("indices", shape=(3, 1, 2)),
    "one index": but("indices", shape=()) | but("grad", shape=(8,)),
    "bools": but("indices", data_type=DataType.BOOL),
    "numbers": but("indices", data_type=DataType.FLOAT),
    "no indices": call((0, 3), 4, 5),
    "no columns": call((2, 3), 4, 0),
    "rows that do not matter without columns": call((2, 3), 4, 0) | {"grad": Tensor((9, 0))},
    "no weights": call((0,), 0, 5),
    "strides": but("grad", strides=(1, 2, 6)) | but("out", strides=(1, 5)),
}
REFUSED = {
    "null comes first": Refused({"out": None, **but("grad", data_type=DataType.INT32)}, "out must not be null", NULL),
    "types before shapes": Refused(but("grad", data_type=DataType.INT32, shape=(2,)), "grad: expected data type"),
    "type of indices": Refused(but("indices", data_type=DataType.COMPLEX64), "indices: expected data type"),
    "type of out": Refused(but("out", data_type=DataType.DOUBLE), "out: expected data type"),
    "a scalar": Refused(but("grad", shape=()) | but("indices", shape=()), "grad: expected at least one dim"),
    "rank of 9": Refused(call((1,) * 8, 5, 8), "grad: expected a rank of at most 8"),
    "too few rows": Refused(but("grad", shape=(5, 8)), "grad: expected a row for each of 6 indices"),
    "other weights": Refused({"numWeights": 6}, "out: expected numWeights rows of the last dim of grad, [6, 8]"),
    "more weights than there can be": Refused({"numWeights": 2**63}, "numWeights: expected less than 2^63"),
    "many weights": Refused({"numWeights": 2**60}, "out: expected numWeights rows"),
    "other columns": Refused(but("out", shape=(5, 9)), "out: expected numWeights rows"),
    "a private format": Refused(but("out", format_=Format.FRACTAL_NZ), "out: expected a plain format"),
    "a negative dim": Refused(but("grad", shape=(-6, 8)), "grad: expected no negative dim"),
    "too large to exist": Refused(call((1,), 2**60, 64), ""),
    "before the storage": Refused(but("out", offset=-1), "out: expected a view"),
}
