"""Grid samplers, boxes and embeddings."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Changes, Order, Refused, changed, shapes

HUGE = 2**62
NAN, INF = float("nan"), float("inf")
SMALLEST_NORMAL = 2.0**-126


def _grid_sampler(axes: int) -> Order:
    """Both operators differ in the order of modes and in empty images."""

    def sampled(images: int, channels: int, *sizes: int, points: tuple[int, ...] = (3, 4, 6)) -> Changes:
        """The shapes of a call; of sizes and points, the last count."""
        image, points = (images, channels, *sizes[-axes:]), points[-axes:]
        grid = (images, *points, axes)
        return shapes(gradOutput=(images, channels, *points), input=image, grid=grid, inputGrad=image, gridGrad=grid)

    accepted: dict[str, Changes] = {
        # Nothing is checked then, and nothing done.
        "outputMask null before all else": {
            "outputMask": None,
            "input": None,
            **shapes(gradOutput=(1,)),
            "paddingMode": 9,
            "gridGrad": None,
        },
        "nearest, reflected, aligned": {"interpolationMode": 1, "paddingMode": 2, "alignCorners": True},
        "too many points of no images": sampled(0, 3, 4, 5, 7, points=(3, HUGE, HUGE)),
    }
    refused: list[Refused] = [
        Refused({"input": None, "outputMask": (False, False)}, "input", NULL),
        Refused({"interpolationMode": 2}, "interpolationMode: expected 0 to 1, got 2"),
        Refused({"interpolationMode": -1}, "interpolationMode: expected 0 to 1"),
        Refused({"paddingMode": 3}, "paddingMode: expected 0 to 2"),
        Refused({"paddingMode": -1}, "paddingMode: expected 0 to 2"),
        Refused(
            shapes(gridGrad=(2, 9, *(4, 6)[-axes + 1 :], axes)) | {"outputMask": (True, False)},
            "gridGrad: expected the",
        ),
        Refused(sampled(2, 3, 4, 5, -7), "input: expected no negative"),
        Refused(sampled(1, 1, 1, 2**31, 2**31, points=(1, 1, 1)), "input: expected a view"),
    ]
    otherwise = {}
    if axes == 3:
        # These are empty tensors like others, which CANN's documents exclude.
        accepted |= {f"no cells, {sizes}": sampled(2, 3, *sizes) for sizes in ((0, 5, 7), (4, 0, 7), (4, 5, 0))}
        refused.append(Refused(changed("input", format_=Format.NDHWC), "input: expected format NCDHW"))
    else:
        nothing = sampled(2, 3, 5, 0) | {"outputMask": (False, False)}
        refused += [Refused(each, "input: expected a height and a width") for each in (sampled(2, 3, 0, 7), nothing)]
        bf16 = changed("gradOutput", "input", "grid", "inputGrad", "gridGrad", data_type=DataType.BF16)
        otherwise = {Product.ATLAS_TRAINING: {"BF16": Refused(bf16, "input: expected data type")}}
    return Order(accepted, tuple(refused), otherwise)


def sampled(input: tuple[int, ...], *points: int, grid: int | None = None) -> Changes:
    images = input[0] if grid is None else grid
    return shapes(input=input, grid=(images, *points, 2), out=(*input[:2], *points))


GRID_SAMPLER = Order(
    accepted={
        "nearest, reflected, aligned": {"interpolationMode": 1, "paddingMode": 2, "alignCorners": True},
        "DOUBLE": changed("input", "grid", "out", data_type=DataType.DOUBLE),
        "no channels": sampled((2, 0, 5, 7), 4, 6),
        "no points": sampled((2, 3, 5, 7), 4, 0),
        "any format": changed("input", format_=Format.NHWC),
    },
    refused=(
        # Types come before modes, and these before shapes; the types of the tensors are compared before they are known.
        Refused(
            changed("grid", data_type=DataType.INT32) | {"paddingMode": 3}, "grid: expected the data type of input"
        ),
        Refused({"interpolationMode": 3, "paddingMode": 3}, "interpolationMode: expected 0 to 1"),
        Refused({"interpolationMode": 2}, "interpolationMode: expected 0 to 1"),
        Refused({"interpolationMode": -1}, "interpolationMode: expected 0 to 1"),
        Refused({"paddingMode": 3} | sampled((2, 3, 0, 7), 4, 6), "paddingMode: expected 0 to 2"),
        Refused({"paddingMode": -1}, "paddingMode: expected 0 to 2"),
        Refused(sampled((2, 3, 5, 7), 4, 6, grid=3), "grid: expected dim 0"),
        Refused(sampled((2, 3, 0, 7), 4, 6), "input: expected a height and a width"),
        Refused(sampled((2, 3, 5, 0), 4, 0), "input: expected a height and a width"),
        Refused(sampled((2, 3, 5, -7), 4, 6), "input: expected no negative"),
        Refused(sampled((1, 1, 2**16, 2**15), 1, 1), "input: expected planes of less than 2^31 cells", 561103),
    ),
    otherwise={
        Product.ATLAS_TRAINING: {
            "BF16": Refused(changed("input", "grid", "out", data_type=DataType.BF16), "input: expected data type")
        }
    },
)


def embedded(indices: tuple[int, ...], weights: int, columns: int) -> Changes:
    return shapes(grad=(*indices, columns), indices=indices, out=(weights, columns)) | {"numWeights": weights}


def into(shape: tuple[int, ...], **more: object) -> Changes:
    return shapes(gradInput=shape) | {"inputShape": shape, **more}


def upsampled(planes: tuple[int, int], size: tuple[int, int], upsampled: tuple[int, int]) -> Changes:
    return {
        **shapes(gradOut=(*planes, *upsampled), out=(*planes, *size)),
        "outputSize": upsampled,
        "inputSize": (*planes, *size),
    }


def enlarged(self: tuple[int, ...], *out: int) -> Changes:
    return shapes(self=self, out=(*self[:2], *out)) | {"outputSize": out}


# The order of the checks of both operators, by what is wrong as well.
UPSAMPLED = (
    Refused(changed("self", "out", format_=Format.NHWC), "self: expected format NCHW"),
    Refused(shapes(out=(3, 3, 8, 10)), "out: expected"),
    Refused(shapes(out=(2, 4, 8, 10)), "out: expected"),
    Refused({"outputSize": (8, 11)}, "out: expected dim 3 to be that of outputSize, 11"),
    Refused({"outputSize": (9, 10)}, "out: expected dim 2 to be that of outputSize, 9"),
    Refused(changed("out", data_type=DataType.FLOAT16) | {"outputSize": (8,)}, "out: expected the data type"),
    Refused(enlarged((1, 1, 2**31, 2**31), 1, 1), "self: expected"),
)

ORDERS = {
    "upsample_nearest2d_v2": Order(
        accepted={
            "no planes, and no sizes": shapes(self=(0, 3, 4, 5)) | {"outputSize": None},
            "no cells": shapes(self=(1, 2, 0, 5)),
            "nothing upsampled, of other types": changed("out", shape=(0,), data_type=DataType.INT32),
            "equal sizes": enlarged((2, 3, 4, 5), 4, 5),
            "any scales": {"scalesH": -1.0, "scalesW": 1e-30},
            "scales that are no number": {"scalesH": NAN, "scalesW": INF},
        },
        refused=(
            *UPSAMPLED,
            Refused({"outputSize": None}, "outputSize must not be null", NULL),
            Refused({"outputSize": (0, 10)}, "outputSize: expected sizes above 0"),
            Refused(changed("self", format_=Format.ND), "self: expected format NCHW"),
            Refused(changed("out", format_=Format.NHWC), "out: expected format NCHW"),
        ),
    ),
    "upsample_bilinear2d": Order(
        accepted={
            "no planes": enlarged((2, 0, 4, 5), 8, 10),
            "no cells": enlarged((1, 2, 0, 5), 8, 10),
            "nothing upsampled": enlarged((1, 2, 4, 5), 0, 10),
            "equal sizes": enlarged((2, 3, 4, 5), 4, 5),
            "scales of the sizes": {"scalesH": 2.0, "scalesW": 2.0},
            "a scale that is rounded": enlarged((2, 3, 3, 7), 10, 9) | {"scalesH": 10 / 3, "scalesW": 9 / 7},
            "scales of nothing": enlarged((0, 3, 4, 5), 8, 10) | {"scalesH": 7.0},
        },
        refused=(
            *UPSAMPLED,
            Refused(changed("out", format_=Format.ND), "out: expected the format of self"),
            Refused(changed("self", "out", data_type=DataType.DOUBLE), "self: expected data type"),
            Refused({"scalesW": -0.5, "outputSize": None}, "scalesW: expected 0 or more, got -0.5"),
            Refused({"scalesH": -1.0}, "scalesH: expected 0 or more"),
            # Some routes of devices ignore scales, and others do not.
            *(Refused({"scalesH": scale}, "scalesH: expected 0 or 8 / 4") for scale in (1.0, 2.001, NAN, INF)),
        ),
    ),
    "upsample_bilinear2d_backward_v2": Order(
        accepted={
            "no planes": upsampled((2, 0), (4, 5), (8, 10)),
            "equal sizes": upsampled((2, 3), (4, 5), (4, 5)),
            "scales of the sizes": {"scalesH": 2.0, "scalesW": 2.0},
            "a scale that is rounded": upsampled((2, 3), (3, 7), (10, 9)) | {"scalesH": 10 / 3, "scalesW": 9 / 7},
        },
        refused=(
            Refused({"inputSize": None, "outputSize": None}, "inputSize must not be null", NULL),
            Refused({"outputSize": None, "out": None}, "outputSize must not be null", NULL),
            Refused(upsampled((2, 3), (0, 5), (8, 10)), "inputSize, outputSize: expected heights and widths above 0"),
            Refused(upsampled((2, 3), (4, 5), (8, 0)), "inputSize, outputSize: expected heights and widths above 0"),
            Refused({"outputSize": (8, 11)}, "gradOut: expected the sizes of inputSize and outputSize"),
            Refused({"inputSize": (2, 3, 4, 6)}, "out: expected inputSize"),
            Refused(changed("gradOut", "out", format_=Format.NHWC), "out: expected format NCHW"),
            Refused(changed("gradOut", format_=Format.NHWC), "gradOut: expected format NCHW"),
            # Some routes of devices ignore scales, and others do not.
            *(Refused({"scalesH": scale}, "scalesH: expected 0 or 8 / 4") for scale in (-1.0, 1.0, 2.001, NAN, INF)),
            Refused({"scalesW": 1.9}, "scalesW: expected 0 or 10 / 5"),
            Refused(upsampled((HUGE, 3), (4, 5), (8, 10)), ""),
        ),
    ),
    "grid_sampler2d": GRID_SAMPLER,
    **{f"grid_sampler{axes}d_backward": _grid_sampler(axes) for axes in (2, 3)},
    "embedding_dense_backward": Order(
        valid=embedded((2, 3), 5, 8) | {"paddingIdx": 2**64 - 1},
        accepted={
            "a padding that is no row": {"paddingIdx": 7},
            "other shapes of as many rows": shapes(grad=(6, 8), indices=(3, 1, 2)),
            "one index": shapes(indices=(), grad=(8,)),
            "rows that do not matter without columns": embedded((2, 3), 4, 0) | shapes(grad=(9, 0)),
            "no weights": embedded((0,), 0, 5),
        },
        refused=(
            Refused(shapes(grad=(), indices=()), "grad: expected at least one dim"),
            Refused(embedded((1,) * 8, 5, 8), "grad: expected a rank of at most 8"),
            Refused({"numWeights": 6}, "out: expected numWeights rows of the last dim of grad, [6, 8]"),
            Refused({"numWeights": 2**63}, "numWeights: expected less than 2^63"),
            Refused({"numWeights": 2**60}, "out: expected numWeights rows"),
            Refused(changed("out", format_=Format.FRACTAL_NZ), "out: expected a plain format"),
            Refused(embedded((1,), 2**60, 64), ""),
        ),
    ),
    "roi_align_v2": Order(
        accepted={
            "most samples": {"samplingRatio": 2**31 - 1},
            "smallest scale": {"spatialScale": SMALLEST_NORMAL * (1 + 2.0**-23)},
            "infinite scale": {"spatialScale": INF},
            "no channels": shapes(self=(2, 0, 20, 24), out=(6, 0, 7, 7)),
            "no boxes": shapes(boxes=(0, 5), out=(0, 3, 7, 7)),
            "no bins": shapes(out=(6, 3, 0, 7)) | {"pooledHeight": 0},
        },
        refused=(
            # Types, formats, shapes, and then the scale.
            Refused(
                changed("boxes", data_type=DataType.FLOAT16) | changed("self", format_=Format.ND),
                "boxes: expected the data type",
            ),
            Refused(changed("self", format_=Format.NHWC, shape=(0, 3, 20, 24)), "self: expected format"),
            *(
                Refused(shapes(self=shape), "self: expected images of at least one cell")
                for shape in ((0, 3, 20, 24), (2, 3, 0, 24), (2, 3, 20, 0))
            ),
            Refused({"pooledHeight": 4, "samplingRatio": -1}, "out: expected dim 2"),
            Refused({"pooledWidth": 2**63 - 1}, "out: expected dim 3"),
            Refused({"samplingRatio": -1, "spatialScale": 0.0}, "samplingRatio: expected 0 or more"),
            Refused({"samplingRatio": 2**40}, "samplingRatio: expected less than"),
            *(
                Refused({"spatialScale": scale}, "spatialScale: expected more than")
                for scale in (0.0, -0.5, 1e-40, SMALLEST_NORMAL, NAN)
            ),
            Refused(shapes(self=(1, 3, HUGE, HUGE)), "self: expected a view"),
        ),
    ),
    "roi_align_v2_backward": Order(
        accepted={
            "most samples": {"samplingRatio": 2**31 - 1},
            "smallest scale": {"spatialScale": SMALLEST_NORMAL * (1 + 2.0**-23)},
            "infinite scale": {"spatialScale": INF},
        },
        refused=(
            Refused({"pooledHeight": 4}, "gradOutput: expected dim 2"),
            Refused({"pooledWidth": 2}, "gradOutput: expected dim 3"),
            Refused({"pooledWidth": 2**63 - 1}, "gradOutput: expected dim 3"),
            Refused({"inputShape": (2, 3, 24, 20)}, "gradInput: expected inputShape"),
            Refused({"samplingRatio": -1}, "samplingRatio: expected 0 or more"),
            Refused({"samplingRatio": 2**40}, "samplingRatio: expected less than"),
            *(
                Refused({"spatialScale": scale}, "spatialScale: expected more than")
                for scale in (0.0, -0.5, 1e-40, SMALLEST_NORMAL, NAN)
            ),
            Refused(shapes(gradOutput=(6, 3, -2, 7)) | {"pooledHeight": -2}, "gradOutput: expected no neg"),
            Refused(into((-2, 3, 9, 12)), "gradInput: expected no negative"),
            Refused(into((1, 3, HUGE, HUGE)), "gradInput: expected a view"),
        ),
    ),
}
