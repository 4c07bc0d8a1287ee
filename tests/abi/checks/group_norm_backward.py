"""aclnnGroupNormBackward."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

INPUT, SAVED, GAMMA = (2, 6, 4, 5), (2, 3), (6,)
FLOAT16, FLOAT = DataType.FLOAT16, DataType.FLOAT
VALID: Arguments = {
    **{name: Tensor(INPUT, format_=Format.ND) for name in ("gradOut", "input")},
    **{name: Tensor(SAVED, format_=Format.ND) for name in ("mean", "rstd")},
    "gamma": Tensor(GAMMA, format_=Format.ND),
    "N": 2,
    "C": 6,
    "HxW": 20,
    "group": 3,
    "outputMask": (True, True, True),
    "gradInput": Tensor(INPUT, format_=Format.ND),
    "gradGammaOut": Tensor(GAMMA, format_=Format.ND),
    "gradBetaOut": Tensor(GAMMA, format_=Format.ND),
}
PARAMETERS = ("gamma", "gradGammaOut", "gradBetaOut")
OUTPUTS = ("gradInput", "gradGammaOut", "gradBetaOut")
but = changing(VALID)


def call(samples: int, channels: int, area: int, group: int) -> Arguments:
    whole, saved, parameter = Tensor((samples, channels, area)), Tensor((samples, group)), Tensor((channels,))
    return {
        **dict.fromkeys(("gradOut", "input", "gradInput"), whole),
        **dict.fromkeys(("mean", "rstd"), saved),
        **dict.fromkeys(PARAMETERS, parameter),
        "N": samples,
        "C": channels,
        "HxW": area,
        "group": group,
    }


WIDE = but("gradOut", "input", "gradInput", data_type=FLOAT16)
ACCEPTED = {
    "as it is": {},
    "no gamma": {"gamma": None},
    "each of float16": {name: Tensor(each.shape, FLOAT16) for name, each in VALID.items() if isinstance(each, Tensor)},
    "only elements count": but("gradOut", "gradInput", "input", shape=(240,)) | but("mean", "rstd", shape=(3, 2)),
    "a gamma of more dims": but(*PARAMETERS, shape=(2, 3)),
    "no samples": call(0, 6, 4, 3),
    "no channels": call(2, 0, 4, 3),
    "no area": call(2, 6, 0, 3),
    "no gradient wanted": {"outputMask": (False,) * 3, **dict.fromkeys(OUTPUTS)},
    "a type and a shape that are not looked at": {"outputMask": (False, True, True)}
    | but("gradInput", shape=(9,), data_type=DataType.INT32),
    "strides": but("input", strides=(1, 2, 12, 48)) | but("gradGammaOut", strides=(2,)),
}
REFUSED = {
    "null comes before the mask": Refused({"rstd": None, "outputMask": ()}, "rstd must not be null", NULL),
    "length of the mask before types": Refused(
        {"outputMask": (True,), **but("gradOut", data_type=DataType.INT32)}, "outputMask: expected 3 values"
    ),
    "a null output before types": Refused(
        {"gradBetaOut": None, **but("gradOut", data_type=DataType.INT32)}, "gradBetaOut must not be null"
    ),
    "types before groups": Refused(but("gradOut", data_type=DataType.INT32) | {"group": 0}, "gradOut: expected data"),
    "types of input": Refused(but("input", data_type=FLOAT16), "input: expected the data type of gradOut"),
    "type of gradInput": Refused(but("gradInput", data_type=FLOAT16), "gradInput: expected the data type of gradOut"),
    "narrow means": Refused(but("mean", "rstd", *PARAMETERS, data_type=FLOAT16), "mean: expected the data type of"),
    "type of rstd": Refused(but("rstd", data_type=FLOAT16), "rstd: expected the data type of mean"),
    "type of gamma": Refused(but("gamma", data_type=FLOAT16), "gamma: expected the data type of mean"),
    "type of gradGammaOut": Refused(but("gradGammaOut", data_type=FLOAT16), "gradGammaOut: expected the data type"),
    "means wider than the input": Refused(WIDE, "mean: expected the data type of gradOut"),
    "no group": Refused({"group": 0}, "group: expected more than 0"),
    "a negative group": Refused({"group": -3}, "group: expected more than 0"),
    "groups that do not divide": Refused({"group": 4}, "C: expected a multiple of group, 4"),
    "groups before elements": Refused({"group": 4, "HxW": 1}, "C: expected a multiple of group"),
    "negative samples": Refused({"N": -2, "HxW": -20}, "N: expected at least 0"),
    "other samples": Refused({"N": 3}, "gradOut: expected N * C * HxW, 360 elements"),
    "other means": Refused(but("mean", shape=(5,)), "mean: expected N * group, 6 elements"),
    "shape of gamma": Refused(but("gamma", shape=(5,)), "gamma: expected C, 6 elements"),
    "shape of gradInput": Refused(but("gradInput", shape=(240,)), "gradInput: expected the shape of input"),
    "shape of gradGammaOut": Refused(but("gradGammaOut", shape=(2, 3)), "gradGammaOut: expected the shape of gamma"),
    "shape of gradBetaOut without gamma": Refused(
        {"gamma": None} | but("gradBetaOut", shape=(2, 3)), "gradBetaOut: expected the shape of gamma, [6]"
    ),
    "too large to exist": Refused({"N": 2**62}, ""),
    "before the storage": Refused(but("gradInput", offset=-1), "gradInput: expected a view"),
}
MANY = {
    "many channels": Refused(call(1, 240_001, 1, 240_001), "C: expected at most 240000"),
    "a large group": Refused(call(1, 8_001, 1, 1), "C: expected at most 8000 channels in a group"),
}
OTHERWISE = {
    Product.ATLAS_A2: MANY,
    Product.ATLAS_A3: MANY,
    Product.ASCEND_950: {
        "means wider than the input": Refused(WIDE, "", 0),
        "a large group": Refused(call(1, 8_001, 1, 1), "", 0),
    },
}
