"""aclnnBatchNormBackward."""

from dataclasses import replace

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

SHAPE = (2, 3, 4, 5)
HALF, DOUBLE = DataType.FLOAT16, DataType.DOUBLE
ALL, NONE = (True, True, True), (False, False, False)
STATISTICS = ("runningMean", "runningVar", "saveMean", "saveInvstd")


def channels(count: int = 3, data_type: DataType = DataType.FLOAT) -> Tensor:
    return Tensor((count,), data_type, Format.ND)


VALID: Arguments = {
    "gradOut": Tensor(SHAPE),
    "input": Tensor(SHAPE),
    "weight": channels(),
    "runningMean": channels(),
    "runningVar": channels(),
    "saveMean": channels(),
    "saveInvstd": channels(),
    "training": True,
    "eps": 1e-5,
    "outputMask": ALL,
    "gradInput": Tensor(SHAPE),
    "gradWeight": channels(),
    "gradBias": channels(),
}
PLANES = ("gradOut", "input", "gradInput")
but = changing(VALID)


def planes(shape: tuple[int, ...], format_: Format, **changes: object) -> Arguments:
    return {**dict.fromkeys(PLANES, Tensor(shape, format_=format_)), **changes}


HALVES = but(*PLANES, data_type=HALF)
NO_OUTPUTS = dict.fromkeys(("gradInput", "gradWeight", "gradBias"))

ACCEPTED = {
    "as it is": {},
    "no optional inputs": dict.fromkeys(("weight", *STATISTICS)),
    "not training": {"training": False},
    "eps of 0": {"eps": 0.0},
    "no output is wanted": {"outputMask": NONE, **NO_OUTPUTS},
    "only gradInput": {"outputMask": (True, False, False), **NO_OUTPUTS, "gradInput": Tensor(SHAPE)},
    "only gradBias": {"outputMask": (False, False, True), **NO_OUTPUTS, "gradBias": channels()},
    "unwanted outputs are not checked": {
        "outputMask": NONE, "gradInput": Tensor((1,), DOUBLE), "gradWeight": Tensor((9, 9)), "gradBias": Tensor((9,)),
    },
    "half": HALVES,
    "half with halves": {
        name: replace(each, data_type=HALF) if isinstance(each, Tensor) else each for name, each in VALID.items()
    },
    "rank 2": planes((2, 3), Format.ND),
    "rank 3": planes((2, 3, 4), Format.NCL),
    "rank 5": planes((2, 3, 1, 2, 2), Format.NCDHW),
    "rank 8": planes((2, 3, 1, 1, 1, 1, 1, 1), Format.ND),
    "empty comes before everything else": {
        "gradOut": Tensor((0, 3), DOUBLE), "weight": channels(9), "outputMask": None, **NO_OUTPUTS,
    },
    "empty input": {"input": Tensor((0,)), "outputMask": None, **NO_OUTPUTS},
    "strides": but("weight", strides=(2,), storage=(6,)),
}  # fmt: skip

REFUSED = {
    "gradOut null": Refused({"gradOut": None, "input": None}, "gradOut must not be null", NULL),
    "null before empty": Refused({"gradOut": Tensor((0, 3)), "input": None}, "input must not be null", NULL),
    "mask of 4": Refused({"outputMask": (*ALL, True)}, "outputMask: expected 3 values", NULL),
    "outputs before dtypes": Refused(
        {"gradOut": Tensor(SHAPE, DOUBLE), "gradBias": None}, "gradBias must not be null", NULL
    ),
    "dtype of gradOut": Refused(but(*PLANES, data_type=DOUBLE), "gradOut: expected data type"),
    "dtype of input": Refused(but("input", data_type=HALF), "input: expected the data type of gradOut"),
    "dtype of gradInput": Refused(but("gradInput", data_type=DOUBLE), "gradInput: expected data type"),
    **{
        f"dtype of {name}": Refused(but(name, data_type=DOUBLE), f"{name}: expected data type")
        for name in ("weight", *STATISTICS, "gradWeight", "gradBias")
    },
    "dtypes before formats": Refused(
        {"input": Tensor(SHAPE, format_=Format.ND), **but("gradBias", data_type=DOUBLE)}, "gradBias: expected data type"
    ),
    "format of input": Refused(but("input", format_=Format.ND), "input: expected the format of gradOut"),
    "format of gradInput": Refused(but("gradInput", format_=Format.ND), "gradInput: expected the format of gradOut"),
    "private format": Refused(but(*PLANES, format_=Format.NC1HWC0), "gradOut: expected a plain format"),
    "NHWC": Refused(but(*PLANES, format_=Format.NHWC), "gradOut: expected format ND"),
    "formats before ranks": Refused(
        {"gradOut": Tensor((2,)), "input": Tensor((2,), format_=Format.ND)}, "input: expected the format"
    ),
    "rank 1": Refused(planes((3,), Format.ND), "gradOut: expected rank"),
    "rank 9": Refused(planes((2, 3, *[1] * 7), Format.ND), "gradOut: expected rank"),
    "shape of input": Refused({"input": Tensor((2, 3, 5, 4))}, "input: expected the shape of gradOut"),
    "shape of gradInput": Refused({"gradInput": Tensor((2, 3, 5, 4))}, "gradInput: expected the shape of gradOut"),
    "shapes before channels": Refused(
        {"input": Tensor((2, 3, 5, 4)), "weight": channels(4)}, "input: expected the shape"
    ),
    **{
        f"{name} of {count}": Refused({name: channels(count)}, f"{name}: expected dim 0")
        for name in ("weight", *STATISTICS, "gradWeight", "gradBias")
        for count in (0, 1, 2, 4)
    },
    **{
        f"rank of {name}": Refused({name: Tensor((1, 3), format_=Format.ND)}, f"{name}: expected rank 1")
        for name in ("weight", *STATISTICS, "gradWeight", "gradBias")
    },
    "before the storage": Refused(but("weight", offset=-1), "weight: expected a view"),
}

OTHERWISE = {
    Product.ASCEND_950: {
        "half weight of float": Refused(but("weight", data_type=HALF), "weight: expected the data type of gradOut"),
        "unequal running pair": Refused(
            HALVES | but("runningVar", data_type=HALF), "runningVar: expected the data type of runningMean"
        ),
        "unequal saved pair": Refused(
            HALVES | but("saveInvstd", data_type=HALF), "saveInvstd: expected the data type of saveMean"
        ),
        "gradInput of another dtype": Refused(but("gradInput", data_type=HALF), "gradInput: expected the data type"),
        "unequal gradients": Refused(
            HALVES | but("weight", "gradWeight", data_type=HALF), "gradBias: expected the data type of gradWeight"
        ),
        "half gradWeight of a float weight": Refused(
            HALVES | but("gradWeight", "gradBias", data_type=HALF), "gradWeight: expected the data type of weight"
        ),
        "empty statistics of the batch when training": Refused(
            {"saveMean": channels(0), "saveInvstd": channels(0)}, "saveMean: expected dim 0"
        ),
        "empty statistics of the batch": Refused(
            {"training": False, "saveMean": channels(0), "saveInvstd": channels(0)}, "", 0
        ),
        "rank 5 of ND": Refused(planes((2, 3, 1, 2, 2), Format.ND), "gradOut: expected format NCDHW"),
    },
}
