"""aclnnRoiAlignV2Backward."""

from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

NAN, INF = float("nan"), float("inf")
SMALLEST_NORMAL = 2.0**-126
HUGE = 2**62

VALID: Arguments = {
    "gradOutput": Tensor((7, 3, 2, 4)),
    "boxes": Tensor((7, 5), format_=Format.ND),
    "inputShape": (2, 3, 9, 12),
    "pooledHeight": 2,
    "pooledWidth": 4,
    "spatialScale": 0.5,
    "samplingRatio": 2,
    "aligned": True,
    "gradInput": Tensor((2, 3, 9, 12)),
}
but = changing(VALID)


def with_input(shape: tuple[int, ...], **changes: object) -> Arguments:
    return {"inputShape": shape, "gradInput": Tensor(shape), **changes}


ACCEPTED = {
    "as it is": {},
    "most samples": {"samplingRatio": 2**31 - 1},
    "smallest scale": {"spatialScale": SMALLEST_NORMAL * (1 + 2.0**-23)},
    "infinite scale": {"spatialScale": INF},
    "strides": but("boxes", strides=(1, 7)),
}

REFUSED = {
    "null comes first": Refused({"gradOutput": Tensor((1,)), "gradInput": None}, "gradInput", NULL),
    "data type of boxes": Refused({"boxes": Tensor((7, 5), DataType.FLOAT16, Format.ND)}, "boxes: expected the data"),
    "data type of gradInput": Refused(
        {"gradInput": Tensor((2, 3, 9, 12), DataType.DOUBLE)}, "gradInput: expected the data"
    ),
    "gradOutput of ND": Refused(but("gradOutput", format_=Format.ND), "gradOutput: expected format NCHW"),
    "gradOutput of NHWC": Refused(but("gradOutput", format_=Format.NHWC), "gradOutput: expected format NCHW"),
    "boxes of NCHW": Refused(but("boxes", format_=Format.NCHW), "boxes: expected format ND"),
    "gradInput of ND": Refused(but("gradInput", format_=Format.ND), "gradInput: expected format NCHW"),
    "formats before ranks": Refused({"gradOutput": Tensor((7,), format_=Format.ND)}, "gradOutput: expected format"),
    "rank of gradOutput": Refused({"gradOutput": Tensor((7, 3, 8))}, "gradOutput: expected rank"),
    "rank of boxes": Refused({"boxes": Tensor((7, 5, 1), format_=Format.ND)}, "boxes: expected rank"),
    "boxes of 4": Refused({"boxes": Tensor((7, 4), format_=Format.ND)}, "boxes: expected dim 1"),
    "fewer boxes": Refused({"boxes": Tensor((6, 5), format_=Format.ND)}, "boxes: expected dim 0"),
    "pooledHeight": Refused({"pooledHeight": 4}, "gradOutput: expected dim 2"),
    "pooledWidth": Refused({"pooledWidth": 2}, "gradOutput: expected dim 3"),
    "huge pooledWidth": Refused({"pooledWidth": 2**63 - 1}, "gradOutput: expected dim 3"),
    "rank of gradInput": Refused({"gradInput": Tensor((3, 9, 12))}, "gradInput: expected rank"),
    "channels": Refused(with_input((2, 4, 9, 12)), "gradInput: expected dim 1"),
    "gradInput unlike inputShape": Refused({"inputShape": (2, 3, 12, 9)}, "gradInput: expected inputShape"),
    "negative ratio": Refused({"samplingRatio": -1}, "samplingRatio: expected 0 or more"),
    "scale of 0": Refused({"spatialScale": 0.0}, "spatialScale"),
    "negative scale": Refused({"spatialScale": -0.5}, "spatialScale"),
    "subnormal scale": Refused({"spatialScale": 1e-40}, "spatialScale"),
    "scale of the smallest normal number": Refused({"spatialScale": SMALLEST_NORMAL}, "spatialScale"),
    "scale of NaN": Refused({"spatialScale": NAN}, "spatialScale"),
    "ratio before scale": Refused({"samplingRatio": -1, "spatialScale": 0.0}, "samplingRatio"),
    "more samples than 31 bits": Refused({"samplingRatio": 2**40}, "samplingRatio: expected less than"),
    "negative bins": Refused({"gradOutput": Tensor((7, 3, -2, 4)), "pooledHeight": -2}, "gradOutput: expected no neg"),
    "negative images": Refused(with_input((-2, 3, 9, 12)), "gradInput: expected no negative"),
    "too large to exist": Refused(with_input((1, 3, HUGE, HUGE)), "gradInput: expected a view"),
    "before the storage": Refused(but("boxes", offset=-1), "boxes: expected a view"),
}
