"""aclnnUpsampleNearest2dBackward."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

VALID: Arguments = {
    "gradOut": Tensor((2, 3, 8, 10)),
    "outputSize": (8, 10),
    "inputSize": (2, 3, 4, 5),
    "scalesH": 0.0,
    "scalesW": 0.0,
    "gradInput": Tensor((2, 3, 4, 5)),
}
but = changing(VALID)


def call(output: tuple[int, ...], input: tuple[int, ...]) -> Arguments:
    grad = Tensor((*input[:2], *output))
    return {"gradOut": grad, "outputSize": output, "inputSize": input, "gradInput": Tensor(input)}


ACCEPTED = {
    "as it is": {},
    "scales of any value": {"scalesH": 2.3, "scalesW": -1.0},
    "format of gradOut": but("gradOut", format_=Format.ND),
    "no batch": call((8, 10), (0, 3, 4, 5)),
    "no channels": call((8, 10), (2, 0, 4, 5)),
    "strides": but("gradOut", strides=(1, 2, 6, 48)) | but("gradInput", strides=(1, 2, 6, 24)),
}

REFUSED = {
    "null comes first": Refused({"gradOut": Tensor((1,)), "gradInput": None}, "gradInput", NULL),
    "gradInput unlike gradOut": Refused(but("gradInput", data_type=DataType.FLOAT16), "gradInput: expected the data"),
    "ND": Refused(but("gradInput", format_=Format.ND), "gradInput: expected format NCHW"),
    "batch of gradInput": Refused({"gradInput": Tensor((1, 3, 4, 5))}, "gradInput: expected the first 2"),
    "height of gradInput": Refused({"gradInput": Tensor((2, 3, 5, 5))}, "gradInput: expected dim 2"),
    "width of gradInput": Refused({"gradInput": Tensor((2, 3, 4, 6))}, "gradInput: expected dim 3"),
    "no rows": Refused(call((8, 10), (2, 3, 0, 5)), "inputSize, outputSize: expected heights"),
    "no upsampled columns": Refused(call((8, 0), (2, 3, 4, 5)), "inputSize, outputSize: expected heights"),
    "batch of inputSize": Refused({"inputSize": (1, 3, 4, 5)}, "gradOut: expected dim 0"),
    "channels of inputSize": Refused({"inputSize": (2, 4, 4, 5)}, "gradOut: expected dim 1"),
    "height of gradOut": Refused({"outputSize": (9, 10)}, "gradOut: expected dim 2"),
    "width of gradOut": Refused({"outputSize": (8, 11)}, "gradOut: expected dim 3"),
    "a negative batch": Refused(call((8, 10), (-2, 3, 4, 5)), "gradOut: expected no negative"),
    "before the storage": Refused(but("gradInput", offset=-1), "gradInput: expected a view"),
    "too large to exist": Refused(call((2**62, 2), (1, 1, 1, 1)), "gradOut: expected a view"),
}
