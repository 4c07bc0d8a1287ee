"""aclnnLayerNormBackward."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

INPUT, SAVED, PARAMETER = (2, 3, 4, 5), (2, 3, 1, 1), (4, 5)
HUGE = 2**62
FLOAT16, BF16, DOUBLE = DataType.FLOAT16, DataType.BF16, DataType.DOUBLE

VALID: Arguments = {
    "gradOut": Tensor(INPUT, format_=Format.ND),
    "input": Tensor(INPUT, format_=Format.ND),
    "normalizedShape": PARAMETER,
    "mean": Tensor(SAVED, format_=Format.ND),
    "rstd": Tensor(SAVED, format_=Format.ND),
    "weightOptional": Tensor(PARAMETER, format_=Format.ND),
    "biasOptional": Tensor(PARAMETER, format_=Format.ND),
    "outputMask": (True, True, True),
    "gradInputOut": Tensor(INPUT, format_=Format.ND),
    "gradWeightOut": Tensor(PARAMETER, format_=Format.ND),
    "gradBiasOut": Tensor(PARAMETER, format_=Format.ND),
}
OUTPUTS = ("gradInputOut", "gradWeightOut", "gradBiasOut")
but = changing(VALID)


def call(leading: tuple[int, ...], normalized: tuple[int, ...]) -> Arguments:
    input, parameter = Tensor((*leading, *normalized)), Tensor(normalized)
    return {
        **dict.fromkeys(("gradOut", "input", "gradInputOut"), input),
        **dict.fromkeys(("mean", "rstd"), Tensor(leading)),
        **dict.fromkeys(("weightOptional", "biasOptional", "gradWeightOut", "gradBiasOut"), parameter),
        "normalizedShape": normalized,
    }


ACCEPTED = {
    "as it is": {},
    "NCHW": but("gradOut", "input", "gradInputOut", format_=Format.NCHW),
    "neither weight nor bias": {"weightOptional": None, "biasOptional": None},
    "each of float16": but("gradOut", "input", "weightOptional", data_type=FLOAT16),
    "a weight of float32": but("gradOut", "input", data_type=BF16),
    # A device casts these: it does not compare them with the input.
    "means narrower than the input": but("mean", data_type=FLOAT16),
    "means and deviations of two types": but("mean", data_type=FLOAT16) | but("rstd", data_type=BF16),
    "a bias of another type": but("biasOptional", data_type=BF16),
    "gradients of other types": but("gradInputOut", data_type=BF16) | but("gradBiasOut", data_type=FLOAT16),
    "means as a list": but("mean", "rstd", shape=(6,)),
    "gradients of the parameters as lists": but("gradWeightOut", shape=(20,)) | but("gradBiasOut", shape=(5, 2, 2)),
    "no gradient wanted": {"outputMask": (False,) * 3, **dict.fromkeys(OUTPUTS)},
    "a shape that is not looked at": {"outputMask": (False, True, True)} | but("gradInputOut", shape=(9,)),
    "no rows": call((0, 3), (4, 5)),
    "no columns": call((2, 3), (0, 5)),
    "all dims normalized": call((), (4, 5)) | but("mean", "rstd", shape=(1,)),
    "strides": but("input", strides=(1, 2, 6, 24)) | but("gradWeightOut", strides=(1, 4)),
}

REFUSED = {
    "null comes before the mask's length": Refused({"rstd": None, "outputMask": ()}, "rstd", NULL),
    "mask null": Refused({"outputMask": None, "gradBiasOut": None}, "outputMask must not be null", NULL),
    "length of the mask before a null output": Refused(
        {"outputMask": (True, True), "gradInputOut": None}, "outputMask: expected 3 values, got 2"
    ),
    "a wanted gradient null, before types": Refused(
        {"gradWeightOut": None, **but("input", data_type=DOUBLE)}, "gradWeightOut must not be null", NULL
    ),
    "data type of input": Refused(but("gradOut", "input", data_type=DOUBLE), "gradOut: expected data"),
    "data type of mean": Refused(but("mean", data_type=DOUBLE), "mean: expected data"),
    "data type of the weight": Refused(but("weightOptional", data_type=DOUBLE), "weightOptional: expected data"),
    "data type of the bias": Refused(but("biasOptional", data_type=DOUBLE), "biasOptional: expected data"),
    "data type of a gradient that is not wanted": Refused(
        {"outputMask": (False, True, True)} | but("gradInputOut", data_type=DOUBLE), "gradInputOut: expected data"
    ),
    "gradOut unlike input": Refused(but("gradOut", data_type=BF16), "gradOut: expected the data"),
    "a weight narrower than the input": Refused(but("weightOptional", data_type=BF16), "weightOptional: expected the"),
    "types before shapes": Refused({"normalizedShape": (5,)} | but("gradOut", data_type=BF16), "gradOut: expected the"),
    "rank of 9": Refused(but("mean", "rstd", shape=(1,) * 8 + (6,)), "mean: expected a rank of at most 8"),
    "other sizes than the input's last": Refused({"normalizedShape": (4, 4)}, "normalizedShape: expected the last"),
    "its first sizes": Refused({"normalizedShape": (2, 3)}, "normalizedShape: expected the last"),
    "no sizes": Refused({"normalizedShape": ()}, "normalizedShape: expected the last"),
    "more sizes than dims": Refused({"normalizedShape": (1, *INPUT)}, "normalizedShape: expected the last"),
    # A device does not see these, and reads the weight out of bounds.
    "a small weight": Refused(
        {"normalizedShape": (2, 2)} | but("weightOptional", "biasOptional", *OUTPUTS[1:], shape=(2, 2)),
        "normalizedShape: expected the last sizes of input",
    ),
    "shape of the weight": Refused(but("weightOptional", shape=(20,)), "weightOptional: expected normalizedShape"),
    "shape of the bias": Refused(but("biasOptional", shape=(20,)), "biasOptional: expected normalizedShape"),
    "shape of gradOut": Refused(but("gradOut", shape=(3, 2, 4, 5)), "gradOut: expected the shape"),
    "mean unlike rstd": Refused(but("mean", shape=(6,)), "mean: expected the shape"),
    "too few means": Refused(but("mean", "rstd", shape=(5,)), "mean: expected one value for each row, 6 elements"),
    "shape of gradInputOut": Refused(but("gradInputOut", shape=(6, 20)), "gradInputOut: expected the shape"),
    "size of gradWeightOut": Refused(but("gradWeightOut", shape=(4,)), "gradWeightOut: expected those of normalized"),
    "size of gradBiasOut": Refused(but("gradBiasOut", shape=(21,)), "gradBiasOut: expected those of normalized"),
    "a wrong shape, though nothing is wanted": Refused(
        {"outputMask": (False,) * 3} | but("gradOut", shape=(6, 20)), "gradOut: expected the shape"
    ),
    "a negative dim": Refused(call((-2, 3), (4, 5)), "input: expected no negative"),
    "too large to exist": Refused(call((2,), (HUGE, 2)), ""),
    "before the storage": Refused(but("gradInputOut", offset=-1), "gradInputOut: expected a view"),
}
