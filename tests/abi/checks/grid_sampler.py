"""aclnnGridSampler2DBackward and aclnnGridSampler3DBackward, which differ in the order of modes and in empty images."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Order, Refused, Tensor, changing

HUGE = 2**31
TENSORS = ("gradOutput", "input", "grid", "inputGrad", "gridGrad")


def call(image: tuple[int, ...], points: tuple[int, ...]) -> Arguments:
    grid = Tensor((image[0], *points, len(points)))
    return {
        "gradOutput": Tensor((*image[:2], *points)),
        "input": Tensor(image),
        "grid": grid,
        "inputGrad": Tensor(image),
        "gridGrad": grid,
    }


def _order(axes: int) -> Order:
    def sampled(images: int, channels: int, *sizes: int, points: tuple[int, ...] = (3, 4, 6)) -> Arguments:
        """The tensors of a call, where planes have the last sizes alone."""
        return call((images, channels, *sizes[-axes:]), points[-axes:])

    image, cells = (2, 3, *(4, 5, 7)[-axes:]), (3, 4, 6)[-axes:]
    tensors = sampled(2, 3, 4, 5, 7)
    modes: Arguments = {"interpolationMode": 0, "paddingMode": 0, "alignCorners": False}
    outputs = {name: tensors.pop(name) for name in ("inputGrad", "gridGrad")}
    valid = {**tensors, **modes, "outputMask": (True, True), **outputs}
    but = changing(valid)

    def of_type(data_type: DataType) -> Arguments:
        return but(*TENSORS, data_type=data_type)

    def points_but(axis: int, size: int) -> tuple[int, ...]:
        return (*(2, *cells, axes)[:axis], size, *(2, *cells, axes)[axis + 1 :])

    strides = {2: ((1, 2, 6, 30), (1, 16, 2, 8)), 3: ((1, 2, 6, 24, 120), (1, 48, 2, 6, 24))}[axes]
    accepted: dict[str, Arguments] = {
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
        "no images": sampled(0, 3, 4, 5, 7),
        "no channels": sampled(2, 0, 4, 5, 7),
        "no points": sampled(2, 3, 4, 5, 7, points=(3, 4, 0)),
        "too many points of no images": sampled(0, 3, 4, 5, 7, points=(3, 2**62, 2**62)),
        "any formats": but("gradOutput", format_=Format.ND) | but("inputGrad", format_=Format.NHWC),
        "strides": but("input", strides=strides[0]) | but("gridGrad", strides=strides[1]),
        **{each.name: of_type(each) for each in (DataType.FLOAT16, DataType.BF16, DataType.DOUBLE)},
    }  # fmt: skip
    other_points = points_but(2, 9)
    refused = {
        "null comes first": Refused({"gradOutput": Tensor((1,)), "paddingMode": 3, "gridGrad": None}, "gridGrad", NULL),
        "inputGrad null and unwanted": Refused({"inputGrad": None, "outputMask": (False, True)}, "inputGrad", NULL),
        "gridGrad null and unwanted": Refused({"gridGrad": None, "outputMask": (True, False)}, "gridGrad", NULL),
        "null with no output wanted": Refused({"input": None, "outputMask": (False, False)}, "input", NULL),
        **{
            f"data type of {name}": Refused(
                but(name, data_type=DataType.FLOAT16) | {"interpolationMode": 2},
                f"{name}: expected the data type of input",
            )
            for name in TENSORS
            if name != "input"
        },
        "data types before modes": Refused(of_type(DataType.INT32) | {"paddingMode": -1}, "input: expected data type"),
        "bicubic": Refused({"interpolationMode": 2}, "interpolationMode: expected 0 to 1, got 2"),
        "both modes": Refused(
            {"interpolationMode": 2, "paddingMode": 3}, {2: "interpolationMode: ", 3: "paddingMode: "}[axes]
        ),
        "interpolationMode below 0": Refused({"interpolationMode": -1}, "interpolationMode: expected 0 to 1"),
        "paddingMode above 2": Refused({"paddingMode": 3, "grid": Tensor((1,))}, "paddingMode: expected 0 to 2"),
        "paddingMode below 0": Refused({"paddingMode": -1}, "paddingMode: expected 0 to 2"),
        "rank of input": Refused(but("input", shape=image[:-1]), "input: expected rank"),
        "rank of grid": Refused(but("grid", shape=(2, *cells[1:], axes)), "grid: expected rank"),
        "rank of gradOutput": Refused(but("gradOutput", shape=(2, 3, *cells[1:])), "gradOutput: expected rank"),
        "ranks of the other operator": Refused(
            call((2, 3, *[4] * (5 - axes)), (4,) * (5 - axes)), "input: expected rank"
        ),
        "images of grid": Refused(but("grid", shape=points_but(0, 1)), "grid: expected dim 0"),
        "images of gradOutput": Refused(but("gradOutput", shape=(1, 3, *cells)), "gradOutput: expected dim 0"),
        "channels of gradOutput": Refused(but("gradOutput", shape=(2, 4, *cells)), "gradOutput: expected dim 1"),
        **{
            f"dim {axis} of grid": Refused(but("grid", shape=points_but(axis, 9)), f"grid: expected dim {axis}")
            for axis in range(1, axes + 2)
        },
        "shape of inputGrad": Refused(
            but("inputGrad", shape=(2, 3, *reversed(image[2:]))), "inputGrad: expected the shape of input"
        ),
        "shape of gridGrad, unwanted": Refused(
            but("gridGrad", shape=other_points) | {"outputMask": (True, False)}, "gridGrad: expected the shape of grid"
        ),
        "shapes before the mask": Refused(
            but("gridGrad", shape=other_points) | {"outputMask": (True,)}, "gridGrad: expected the shape of grid"
        ),
        "mask of 1": Refused({"outputMask": (True,)}, "outputMask: expected 2 values, got 1"),
        "mask of 3": Refused({"outputMask": (True, True, True)}, "outputMask: expected 2 values, got 3"),
        "a negative width": Refused(sampled(2, 3, 4, 5, -7), "input: expected no negative"),
        "before the storage": Refused(but("inputGrad", offset=-1), "inputGrad: expected a view"),
        "too large to exist": Refused(sampled(1, 1, 1, HUGE, HUGE, points=(1, 1, 1)), "input: expected a view"),
    }
    if axes == 3:
        # These are empty tensors like others, which CANN's documents exclude.
        accepted |= {f"no cells, {sizes}": sampled(2, 3, *sizes) for sizes in ((0, 5, 7), (4, 0, 7), (4, 5, 0))}
        refused["channels last"] = Refused(but("input", format_=Format.NDHWC), "input: expected format NCDHW")
        return Order(valid, accepted, refused, {})
    refused |= {
        "no rows": Refused(sampled(2, 3, 0, 7), "input: expected a height and a width above 0"),
        "no columns, with no output wanted": Refused(
            sampled(2, 3, 5, 0) | {"outputMask": (False, False)}, "input: expected a height and a width above 0"
        ),
    }
    without_bf16 = {"BF16": Refused(of_type(DataType.BF16), "input: expected data type")}
    return Order(valid, accepted, refused, {Product.ATLAS_TRAINING: without_bf16})


ORDERS = {f"grid_sampler{axes}d_backward": _order(axes) for axes in (2, 3)}
