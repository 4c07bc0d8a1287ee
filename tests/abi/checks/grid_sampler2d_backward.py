"""aclnnGridSampler2DBackward."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

IMAGE, POINTS = (2, 3, 5, 7), (2, 4, 6, 2)
HUGE = 2**31

VALID: Arguments = {
    "gradOutput": Tensor((2, 3, 4, 6)),
    "input": Tensor(IMAGE),
    "grid": Tensor(POINTS),
    "interpolationMode": 0,
    "paddingMode": 0,
    "alignCorners": False,
    "outputMask": (True, True),
    "inputGrad": Tensor(IMAGE),
    "gridGrad": Tensor(POINTS),
}
TENSORS = [name for name, value in VALID.items() if isinstance(value, Tensor)]
but = changing(VALID)


def call(image: tuple[int, ...], points: tuple[int, ...]) -> Arguments:
    grid = Tensor((image[0], *points, 2))
    return {
        "gradOutput": Tensor((*image[:2], *points)),
        "input": Tensor(image),
        "grid": grid,
        "inputGrad": Tensor(image),
        "gridGrad": grid,
    }


def of_type(data_type: DataType) -> Arguments:
    return but(*TENSORS, data_type=data_type)


ACCEPTED = {
    "as it is": {},
    # Nothing is checked then, and nothing done.
    "outputMask null": {"outputMask": None},
    "outputMask null before all else": {
        "outputMask": None, "input": None, "gradOutput": Tensor((1,)), "paddingMode": 9, "gridGrad": None,
    },
    "only inputGrad": {"outputMask": (True, False)},
    "only gridGrad": {"outputMask": (False, True)},
    "neither": {"outputMask": (False, False)},
    "nearest, reflected, aligned": {"interpolationMode": 1, "paddingMode": 2, "alignCorners": True},
    "no images": call((0, 3, 5, 7), (4, 6)),
    "no channels": call((2, 0, 5, 7), (4, 6)),
    "no points": call((2, 3, 5, 7), (4, 0)),
    "too many points of no images": call((0, 3, 5, 7), (2**62, 2**62)),
    "any formats": but("gradOutput", format_=Format.ND) | but("inputGrad", format_=Format.NHWC),
    "strides": but("input", strides=(1, 2, 6, 30)) | but("gridGrad", strides=(1, 16, 2, 8)),
    **{each.name: of_type(each) for each in (DataType.FLOAT16, DataType.BF16, DataType.DOUBLE)},
}  # fmt: skip

REFUSED = {
    "null comes first": Refused({"gradOutput": Tensor((1,)), "paddingMode": 3, "gridGrad": None}, "gridGrad", NULL),
    "inputGrad null and unwanted": Refused({"inputGrad": None, "outputMask": (False, True)}, "inputGrad", NULL),
    "gridGrad null and unwanted": Refused({"gridGrad": None, "outputMask": (True, False)}, "gridGrad", NULL),
    "null with no output wanted": Refused({"input": None, "outputMask": (False, False)}, "input", NULL),
    **{
        f"data type of {name}": Refused(
            but(name, data_type=DataType.FLOAT16) | {"interpolationMode": 2}, f"{name}: expected the data type of input"
        )
        for name in TENSORS
        if name != "input"
    },
    "data types before modes": Refused(of_type(DataType.INT32) | {"paddingMode": -1}, "input: expected data type"),
    "bicubic": Refused({"interpolationMode": 2, "paddingMode": 3}, "interpolationMode: expected 0 to 1, got 2"),
    "interpolationMode below 0": Refused({"interpolationMode": -1}, "interpolationMode: expected 0 to 1"),
    "paddingMode above 2": Refused({"paddingMode": 3, "grid": Tensor((1,))}, "paddingMode: expected 0 to 2"),
    "paddingMode below 0": Refused({"paddingMode": -1}, "paddingMode: expected 0 to 2"),
    "rank of input": Refused(but("input", shape=(2, 3, 35)), "input: expected rank"),
    "rank of grid": Refused(but("grid", shape=(2, 24, 2)), "grid: expected rank"),
    "rank of gradOutput": Refused(but("gradOutput", shape=(2, 3, 24)), "gradOutput: expected rank"),
    "images of grid": Refused(but("grid", shape=(1, 4, 6, 2)), "grid: expected dim 0"),
    "images of gradOutput": Refused(but("gradOutput", shape=(1, 3, 4, 6)), "gradOutput: expected dim 0"),
    "channels of gradOutput": Refused(but("gradOutput", shape=(2, 4, 4, 6)), "gradOutput: expected dim 1"),
    "no rows": Refused(call((2, 3, 0, 7), (4, 6)), "input: expected a height and a width above 0"),
    "no columns, with no output wanted": Refused(
        call((2, 3, 5, 0), (4, 6)) | {"outputMask": (False, False)}, "input: expected a height and a width above 0"
    ),
    "rows of grid": Refused(but("grid", shape=(2, 5, 6, 2)), "grid: expected dim 1"),
    "columns of grid": Refused(but("grid", shape=(2, 4, 5, 2)), "grid: expected dim 2"),
    "coordinates of grid": Refused(but("grid", shape=(2, 4, 6, 3)), "grid: expected dim 3"),
    "shape of inputGrad": Refused(but("inputGrad", shape=(2, 3, 7, 5)), "inputGrad: expected the shape of input"),
    "shape of gridGrad, unwanted": Refused(
        but("gridGrad", shape=(2, 6, 4, 2)) | {"outputMask": (True, False)}, "gridGrad: expected the shape of grid"
    ),
    "shapes before the mask": Refused(
        but("gridGrad", shape=(2, 6, 4, 2)) | {"outputMask": (True,)}, "gridGrad: expected the shape of grid"
    ),
    "mask of 1": Refused({"outputMask": (True,)}, "outputMask: expected 2 values, got 1"),
    "mask of 3": Refused({"outputMask": (True, True, True)}, "outputMask: expected 2 values, got 3"),
    "a negative width": Refused(call((2, 3, 5, -7), (4, 6)), "input: expected no negative"),
    "before the storage": Refused(but("inputGrad", offset=-1), "inputGrad: expected a view"),
    "too large to exist": Refused(call((1, 1, HUGE, HUGE), (1, 1)), "input: expected a view"),
}

OTHERWISE = {
    Product.ATLAS_TRAINING: {
        "BF16": Refused(of_type(DataType.BF16), "input: expected data type"),
    },
}
