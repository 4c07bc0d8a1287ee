"""Normalizations."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, TILING, Changes, Order, Refused, changed, shapes

HUGE = 2**62
FLOAT16, BF16, DOUBLE, INT32 = DataType.FLOAT16, DataType.BF16, DataType.DOUBLE, DataType.INT32
NONE = (False, False, False)

# Batch normalization of (4, 3, 6, 7).
PLANES = ("gradOut", "input", "gradInput")
STATISTICS = ("runningMean", "runningVar", "saveMean", "saveInvstd")
RUNNING = ("runningMean", "runningVar")
BATCH_OUTPUTS = ("gradInput", "gradWeight", "gradBias")
HALVES = changed(*PLANES, data_type=FLOAT16)


def planes(shape: tuple[int, ...], format_: Format) -> Changes:
    return changed(*PLANES, shape=shape, format_=format_)


BATCH_NORM = Order(
    # The running statistics have what the saved ones have.
    like={"runningMean": "saveMean", "runningVar": "saveInvstd"},
    accepted={
        "eps of 0": {"eps": 0.0},
        "no output is wanted": {"outputMask": NONE, **dict.fromkeys(BATCH_OUTPUTS)},
        "unwanted outputs are not checked": {
            "outputMask": NONE,
            **changed("gradInput", shape=(1,), data_type=DOUBLE),
            **changed("gradWeight", "gradBias", shape=(9, 9)),
        },
        "half with halves": changed(*PLANES, "weight", *STATISTICS, "gradWeight", "gradBias", data_type=FLOAT16),
        "empty comes before everything else": {
            "gradOut": {"shape": (0, 3), "data_type": DOUBLE},
            "weight": {"shape": (9,)},
            "outputMask": None,
            **dict.fromkeys(BATCH_OUTPUTS),
        },
        "empty input": shapes(input=(0,)) | {"outputMask": None, **dict.fromkeys(BATCH_OUTPUTS)},
    },
    refused=(
        Refused(shapes(gradOut=(0, 3)) | {"input": None}, "input must not be null", NULL),
        Refused(changed("gradOut", data_type=DOUBLE) | {"gradBias": None}, "gradBias must not be null", NULL),
        Refused(changed(*PLANES, format_=Format.NHWC), "gradOut: expected format ND"),
        Refused(planes((3,), Format.ND), "gradOut: expected rank"),
        Refused(planes((2, 3, *[1] * 7), Format.ND), "gradOut: expected rank"),
        *(Refused(changed(name, data_type=DOUBLE), f"{name}: expected data type") for name in RUNNING),
        *(Refused(changed(name, shape=(1, 3)), f"{name}: expected rank 1") for name in RUNNING),
        *(
            Refused(changed(name, shape=(count,)), f"{name}: expected dim 0")
            for name in ("weight", *STATISTICS, "gradWeight", "gradBias")
            for count in (0, 1, 4)
        ),
    ),
    otherwise={
        Product.ASCEND_950: {
            "unequal running pair": Refused(
                HALVES | changed("runningVar", data_type=FLOAT16), "runningVar: expected the data type of runningMean"
            ),
            "unequal saved pair": Refused(
                HALVES | changed("saveInvstd", data_type=FLOAT16), "saveInvstd: expected the data type of saveMean"
            ),
            "unequal gradients": Refused(
                HALVES | changed("weight", "gradWeight", data_type=FLOAT16),
                "gradBias: expected the data type of gradWeight",
            ),
            "half gradWeight of a float weight": Refused(
                HALVES | changed("gradWeight", "gradBias", data_type=FLOAT16),
                "gradWeight: expected the data type of weight",
            ),
            "empty statistics of the batch when training": Refused(
                shapes(saveMean=(0,), saveInvstd=(0,)), "saveMean: expected dim 0"
            ),
            "empty statistics of the batch": Refused(
                {"training": False, **shapes(saveMean=(0,), saveInvstd=(0,))}, "", 0
            ),
            "rank 5 of ND": Refused(planes((2, 3, 1, 2, 2), Format.ND), "gradOut: expected format NCDHW"),
        }
    },
)

# Group normalization of (2, 6, 5, 7) in 3 groups.
GROUP_OUTPUTS = ("gradInput", "gradGammaOut", "gradBetaOut")
PARAMETERS = ("gamma", "gradGammaOut", "gradBetaOut")
WIDE = changed("gradOut", "input", "gradInput", data_type=FLOAT16)


def grouped(samples: int, channels: int, area: int, group: int) -> Changes:
    return {
        **changed("gradOut", "input", "gradInput", shape=(samples, channels, area)),
        **changed("mean", "rstd", shape=(samples, group)),
        **changed(*PARAMETERS, shape=(channels,)),
        "N": samples,
        "C": channels,
        "HxW": area,
        "group": group,
    }


MANY_CHANNELS = Refused(grouped(1, 240_001, 1, 240_001), "C: expected at most 240000")
LARGE_GROUP = Refused(grouped(1, 8_001, 1, 1), "C: expected at most 8000 channels in a group")
MANY = {"many channels": MANY_CHANNELS, "a large group": LARGE_GROUP}
WIDER_MEANS = Refused(WIDE, "mean: expected the data type of gradOut")

GROUP_NORM = Order(
    accepted={
        "only elements count": changed("gradOut", "input", "gradInput", shape=(420,))
        | changed("mean", "rstd", shape=(3, 2)),
        "a gamma of more dims": changed(*PARAMETERS, shape=(2, 3)),
        "no channels": grouped(2, 0, 4, 3),
        "no gradient wanted": {"outputMask": NONE, **dict.fromkeys(GROUP_OUTPUTS)},
        "a type and a shape that are not looked at": {"outputMask": (False, True, True)}
        | changed("gradInput", shape=(9,), data_type=INT32),
    },
    refused=(
        Refused({"rstd": None, "outputMask": ()}, "rstd must not be null", NULL),
        Refused(changed("mean", "rstd", *PARAMETERS, data_type=FLOAT16), "mean: expected the data type of"),
        WIDER_MEANS,
        Refused({"group": 0}, "group: expected more than 0"),
        Refused({"group": -3}, "group: expected more than 0"),
        Refused({"group": 4}, "C: expected a multiple of group, 4"),
        Refused({"N": -2, "HxW": -35}, "N: expected at least 0"),
        Refused({"N": 3}, "gradOut: expected N * C * HxW, 630 elements"),
        Refused({"gamma": None} | shapes(gradBetaOut=(2, 3)), "gradBetaOut: expected the shape of gamma, [6]"),
        Refused({"N": HUGE}, ""),
    ),
    otherwise={
        Product.ATLAS_A2: MANY,
        Product.ATLAS_A3: MANY,
        Product.ASCEND_950: {
            WIDER_MEANS.message: Refused(WIDE, "", 0),
            "a large group": Refused(LARGE_GROUP.changes, "", 0),
        },
    },
)

# Layer normalization of (2, 3, 40).
LAYER_OUTPUTS = ("gradInputOut", "gradWeightOut", "gradBiasOut")
LAST = "normalizedShape: expected the last sizes of input"


def layered(leading: tuple[int, ...], normalized: tuple[int, ...]) -> Changes:
    return {
        **changed("gradOut", "input", "gradInputOut", shape=(*leading, *normalized)),
        **changed("mean", "rstd", shape=leading),
        **changed("weightOptional", "biasOptional", *LAYER_OUTPUTS[1:], shape=normalized),
        "normalizedShape": normalized,
    }


LAYER_NORM = Order(
    valid=layered((2, 3), (4, 5)),
    accepted={
        "gradients of the parameters as lists": shapes(gradWeightOut=(20,), gradBiasOut=(5, 2, 2)),
        "no gradient wanted": {"outputMask": NONE, **dict.fromkeys(LAYER_OUTPUTS)},
        "a shape that is not looked at": {"outputMask": (False, True, True)} | shapes(gradInputOut=(9,)),
    },
    refused=(
        Refused({"rstd": None, "outputMask": ()}, "rstd", NULL),
        Refused({"outputMask": None, "gradBiasOut": None}, "outputMask must not be null", NULL),
        Refused({"outputMask": (True, True), "gradInputOut": None}, "outputMask: expected 3 values, got 2"),
        Refused({"gradWeightOut": None, **changed("input", data_type=DOUBLE)}, "gradWeightOut must not", NULL),
        Refused(
            {"outputMask": (False, True, True)} | changed("gradInputOut", data_type=DOUBLE), "gradInputOut: expected"
        ),
        Refused(shapes(mean=(1,) * 8 + (6,), rstd=(1,) * 8 + (6,)), "mean: expected a rank of at most 8"),
        *(Refused({"normalizedShape": sizes}, LAST) for sizes in ((4, 4), (2, 3), (), (1, 2, 3, 4, 5))),
        # A device does not see these, and reads the weight out of bounds.
        Refused(
            {"normalizedShape": (2, 2)} | changed("weightOptional", "biasOptional", *LAYER_OUTPUTS[1:], shape=(2, 2)),
            LAST,
        ),
        Refused(shapes(weightOptional=(20,)), "weightOptional: expected normalizedShape"),
        Refused(shapes(mean=(5,), rstd=(5,)), "mean: expected one value for each row, 6 elements"),
        Refused({"outputMask": NONE} | shapes(gradOut=(6, 20)), "gradOut: expected the shape"),
        Refused(layered((2,), (HUGE, 2)), ""),
    ),
)


# Root mean square normalization of (2, 3, 40): CANN generates the operator, so the tiling checks the shapes.
def rooted(leading: tuple[int, ...], normalized: tuple[int, ...]) -> Changes:
    rows = changed("dy", "x", "dxOut", shape=(*leading, *normalized))
    return rows | changed("gamma", "dgammaOut", shape=normalized) | shapes(rstd=leading)


NARROW = changed("dy", "x", "dxOut", data_type=FLOAT16)
SHORT = "x: expected a last dim of at least 32 bytes"

RMS_NORM = Order(
    accepted={
        "rows of 32 bytes": rooted((3,), (8,)),
        "as many rows as no memory holds": rooted((2**31,), (8,)),
        "a gamma of float32": NARROW,
    },
    refused=(
        Refused(changed("rstd", data_type=FLOAT16), "rstd: expected data type"),
        Refused(changed("gamma", data_type=FLOAT16), "gamma: expected the data type of dy"),
        Refused(shapes(gamma=(8, 5), dgammaOut=(8, 5)), "gamma: expected the last dims", TILING),
        Refused(shapes(rstd=(6,)), "rstd: expected the leading dims", TILING),
        Refused(rooted((1,) * 8, (8,)), "x: expected 1 to 8 dims", TILING),
        Refused(rooted((2,), (0,)), "x: expected elements", TILING),
        Refused(rooted((HUGE,), (8,)), ""),
    ),
    otherwise={
        Product.ATLAS_INFERENCE: {
            "a gamma of float32": Refused(NARROW, "gamma: expected the data type of dy"),
            "a last dim of 1": Refused(rooted((3,), (1,)), SHORT, TILING),
        },
        **{
            product: {"no rows": Refused(rooted((0,), (8,)), "x: expected elements", TILING)}
            for product in Product
            if product not in (Product.ATLAS_INFERENCE, Product.ASCEND_950)
        },
        Product.ASCEND_950: {"no rows": Refused(rooted((0,), (8,)), "", 0)},
    },
)

ORDERS = {
    "batch_norm_backward": BATCH_NORM,
    "group_norm_backward": GROUP_NORM,
    "layer_norm_backward": LAYER_NORM,
    "rms_norm_grad": RMS_NORM,
}
