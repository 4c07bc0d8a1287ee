"""Pooling, the way back from it, and upsampling."""

from aclgrad.masks import Pooling
from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Changes, Order, Refused, changed, shapes

HUGE = 2**62


def averaged(grad: tuple[int, ...], rest: tuple[int, ...], **more: object) -> Changes:
    return changed("gradOutput", shape=grad, **more) | changed("self", "out", shape=rest, **more)


def pooled(grad: tuple[int, ...], rest: tuple[int, ...], **more: object) -> Changes:
    return changed("gradOutput", shape=grad, **more) | changed("self", "gradInput", shape=rest, **more)


def indexed(grad: tuple[int, ...], rest: tuple[int, ...]) -> Changes:
    return pooled(grad, rest) | shapes(indices=grad)


def masked(
    shape: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...] = (), padding: tuple[int, ...] = (0,)
) -> Changes:
    pooling = Pooling.of(shape[-2:], kernel, stride, padding)
    attributes: Arguments = {"kernelSize": kernel, "stride": stride, "padding": padding}
    return pooled((*shape[:-2], *pooling.output_size), shape) | mask(*pooling.mask_shape(shape[:-2])) | attributes


def mask(*shape: int, **more: object) -> Changes:
    return {"indices": {"shape": shape, "data_type": DataType.INT8, **more}}


def unpooled(grad: tuple[int, ...], rest: tuple[int, ...], output_size: tuple[int, ...] | None = None) -> Changes:
    return shapes(gradOutput=grad, self=rest, indices=rest, out=rest) | {"outputSize": output_size or grad[-2:]}


def upsampled(output: tuple[int, ...], input: tuple[int, ...]) -> Changes:
    sizes: Arguments = {"outputSize": output, "inputSize": input}
    return shapes(gradOut=(*input[:2], *output), gradInput=input) | sizes


# A call of 2x3 planes of 9x12 cells and 5x6 windows.
USUAL = masked((2, 3, 9, 12), (3, 2), (2, 2), (1, 0))
WINDOWS_BYTES = 2 * 3 * 5 * 6 * 4
ONE = masked((2, 17, 4, 4), (1,))  # 16 positions: the mask's words are 2 batches, 2 channel groups, 1 cell, 32 words
MASK_BYTES = ((2 * 2 - 1) * 32 + 16) * 2
HUGE_KERNEL = masked((1, 1, 4, 4), (2**62,), (1,), (2**61,)) | mask(1, 1, 25 * 4)
OTHER_SHAPE = USUAL | mask(1, 1, WINDOWS_BYTES)
LARGER_STORAGE = USUAL | mask(1, 1, 1, storage=(WINDOWS_BYTES,))
EARLY_END = USUAL | mask(1, 1, WINDOWS_BYTES - 1)
NO_BITS = "indices: expected at least"

WINDOWS = (
    Refused({"kernelSize": (3, 0)}, "kernelSize: expected values above 0"),
    Refused({"kernelSize": (-3,)}, "kernelSize: expected values above 0"),
    Refused({"stride": (0,)}, "stride: expected values above 0"),
    Refused({"stride": (2, -2)}, "stride: expected values above 0"),
    Refused({"kernelSize": (3, 2), "padding": (1, 2)}, "padding: expected values from 0 to half"),
    Refused({"kernelSize": (3, 2), "padding": (2, 1)}, "padding: expected values from 0 to half"),
    Refused({"padding": (-1,)}, "padding: expected values from 0 to half"),
)

ORDERS = {
    "adaptive_avg_pool2d_backward": Order(
        accepted={
            "no windows": averaged((1, 1, 0, 16), (1, 1, 32, 16)),
            "strides of an empty tensor": averaged((0, 3, 2, 2), (0, 3, 6, 8))
            | {"gradOutput": {"shape": (0, 3, 2, 2), "strides": (HUGE,) * 4}},
        },
        refused=(
            Refused(shapes(self=(2, 3, 56, -56)), "self: expected no negative"),
            Refused(shapes(gradOutput=(2, 3, HUGE, HUGE)), "gradOutput"),
            Refused(averaged((1, 1, 2, 2), (1, 1, HUGE, HUGE)), "out"),
            Refused(changed("out", strides=(-144, 48, 8, 1)), "out"),
            Refused(changed("out", offset=2**63 - 1), "out"),
        ),
    ),
    "adaptive_avg_pool3d_backward": Order(
        accepted={"DOUBLE": averaged((2, 3, 1, 1, 1), (2, 3, 4, 6, 8), data_type=DataType.DOUBLE)},
        refused=(
            Refused(averaged((2, 0, 1, 1, 1), (2, 0, 4, 6, 8)), "self: expected no empty"),
            Refused(averaged((2, 3, 1, 1, 1), (2, 3, 4, 6, 0)), "self: expected no empty"),
            Refused(averaged((2, 3, 1, 0, 1), (2, 3, 4, 6, 8)), "gradOutput: expected no empty"),
            Refused(averaged((1, 1, 1, 1, 1), (1, 1, 2, HUGE, HUGE)), "out: expected a view"),
        ),
        otherwise={
            Product.ATLAS_A2: {
                "DOUBLE with two windows": Refused(
                    averaged((2, 3, 1, 1, 2), (2, 3, 4, 6, 8), data_type=DataType.DOUBLE),
                    "gradOutput: expected data",
                ),
                "no batch": Refused(averaged((0, 3, 1, 1, 1), (0, 3, 4, 6, 8)), "self: expected no empty"),
            }
        },
    ),
    "avg_pool2d_backward": Order(
        valid={"kernelSize": (3, 2), "stride": (2, 2), "padding": (1, 0), "cubeMathType": 1}
        | pooled((2, 3, 5, 6), (2, 3, 9, 12)),
        accepted={
            "rank 3 as NCL": pooled((3, 5, 6), (3, 9, 12), format_=Format.NCL),
            "stride of kernelSize": pooled((2, 3, 3, 6), (2, 3, 9, 12)) | {"stride": (), "padding": (0,)},
            "gradOutput empty, of any shape": pooled((2, 0, 50, 60), (2, 3, 9, 12)),
            "a huge stride": pooled((2, 3, 1, 1), (2, 3, 9, 12)) | {"stride": (HUGE,)},
            "a negative divisor": {"divisorOverride": -255},
        },
        refused=(
            *WINDOWS,
            Refused(changed("gradInput", format_=Format.NCL), "gradInput: expected format NCHW"),
            Refused({"cubeMathType": 4}, "cubeMathType: expected a value from 0 to 3"),
            Refused({"cubeMathType": -1}, "cubeMathType: expected a value from 0 to 3"),
            Refused({"kernelSize": (20, 2)}, "gradOutput: expected shape [2, 3, 0, 6]"),
            Refused(
                pooled((1, 1, HUGE, HUGE), (1, 1, HUGE, HUGE)) | {"kernelSize": (1,), "stride": (), "padding": (0,)},
                "gradOutput: expected a view",
            ),
        ),
    ),
    "max_pool2d_with_indices_backward": Order(
        refused=(
            *WINDOWS,
            Refused({"dilation": (0,)}, "dilation: expected values"),
            Refused(indexed((2, 0, 5, 5), (2, 0, 9, 10)), "self: expected no empty dim"),
            Refused({"kernelSize": (20, 2), "padding": (0, 0)}, "kernelSize: expected a window"),
        ),
        otherwise={
            Product.ATLAS_A2: {
                "dilation of 2": Refused({"dilation": (1, 2)}, "dilation: expected values of 1"),
                "a plane beyond INT32": Refused(
                    indexed((1, 1, 1, 1), (1, 1, 2**16, 2**16))
                    | {"kernelSize": (2**16,), "stride": (), "padding": (0,)},
                    "self: expected planes",
                ),
            }
        },
    ),
    "max_pool2d_with_mask_backward": Order(
        valid=USUAL,
        accepted={
            "two dilations": {"dilation": (1, 1)},
            "a kernel larger than self": masked((2, 3, 3, 4), (6,), (1,), (3,)),
            "a huge stride": masked((2, 3, 9, 12), (3,), (2**62,), (1,)) | {"ceilMode": True},
            "a huge kernel": HUGE_KERNEL,
            "as many windows with ceil mode": {"kernelSize": (2, 3), "ceilMode": True},
            "indices of another shape": OTHER_SHAPE,
            "a storage larger than the view": LARGER_STORAGE,
            "a mask of another shape": ONE | mask(1, 1, MASK_BYTES),
        },
        refused=(
            *WINDOWS,
            Refused({"gradOutput": None, "indices": None}, "gradOutput", NULL),
            Refused({"kernelSize": (), "indices": None}, "kernelSize", NULL),
            Refused({"kernelSize": (), "self": None}, "self", NULL),
            Refused({"dilation": (1, 2)}, "dilation: expected values of 1"),
            Refused({"dilation": (0,)}, "dilation: expected values of 1"),
            Refused(mask(1, 1, WINDOWS_BYTES, format_=Format.NC1HWC0), "indices: expected a plain"),
            Refused(pooled((2, 0, 5, 6), (2, 0, 9, 12)), "self: expected no empty dim"),
            Refused(pooled((2, 3, 5, 6), (2, 3, 0, 12)), "self: expected no empty dim"),
            Refused(pooled((0, 5, 6), (0, 9, 12)), "self: expected no empty dim"),
            Refused({"kernelSize": (20, 2), "padding": (0, 0)}, "kernelSize: expected a window"),
            Refused({"kernelSize": (2, 3)}, "gradOutput: expected shape [2, 3, 5, 5]"),
            Refused(ONE | mask(1, 1, MASK_BYTES - 1), f"indices: expected at least {MASK_BYTES} bytes"),
            Refused(ONE | mask(1, 1, 1, storage=(MASK_BYTES,)), f"indices: expected at least {MASK_BYTES} bytes"),
            Refused(EARLY_END, "indices: expected at least"),
            Refused(mask(2, 3, -6, 96), "indices: expected no negative"),
            Refused(masked((1, 1, HUGE, HUGE), (2,)), "gradOutput: expected a view"),
        ),
        # 910A has no mask of positions.
        otherwise={
            Product.ATLAS_TRAINING: {
                "indices of another shape": Refused(OTHER_SHAPE, NO_BITS),
                "a storage larger than the view": Refused(LARGER_STORAGE, NO_BITS),
                "a huge kernel": Refused(HUGE_KERNEL, NO_BITS),
            }
        },
    ),
    "max_unpool2d_backward": Order(
        accepted={
            "fewer cells than self": unpooled((2, 3, 1, 1), (2, 3, 3, 4)),
            "no channels": unpooled((2, 0, 6, 8), (2, 0, 3, 4)),
            "both empty": unpooled((2, 3, 0, 8), (2, 3, 3, 0)),
        },
        refused=(
            Refused(changed("out", data_type=DataType.INT32), "out: expected a data type that FLOAT"),
            Refused(
                changed("gradOutput", "self", data_type=DataType.INT8) | changed("out", data_type=DataType.BOOL),
                "out: expected a data type",
            ),
            Refused({"outputSize": (5, 10)}, "gradOutput: expected dim 2"),
            Refused({"outputSize": (8, 9)}, "gradOutput: expected dim 3"),
            Refused(unpooled((2, 3, 0, 8), (2, 3, 3, 4)), "gradOutput: expected elements"),
        ),
    ),
    "max_unpool3d_backward": Order(
        accepted={
            "as many cells in another shape": unpooled((1, 1, 1, 24), (1, 2, 3, 4), (1, 1, 24)),
            "huge padding and stride": {"padding": (HUGE, 0, 0), "stride": (HUGE, 1, 1)},
            "out behind an offset": changed("out", offset=5),
        },
        refused=(
            Refused(changed("out", strides=(1, 2, 6, 24, 96)), "out: expected contiguous"),
            Refused(unpooled((2, 0, 4, 6, 8), (2, 0, 2, 3, 4), (4, 6, 8)), "self: expected no empty dim"),
            Refused(unpooled((2, 3, 4, 6, 8), (2, 3, 2, 3, 0), (4, 6, 8)), "self: expected no empty dim"),
            Refused(unpooled((2, 3, 4, 6, 8), (2, -3, 2, 3, 4), (4, 6, 8)), "self: expected no empty dim"),
            Refused({"stride": (1, 0, 1)}, "stride: expected values above 0"),
            Refused({"stride": (1, 1, -1)}, "stride: expected values above 0"),
            Refused({"outputSize": (0, 6, 8)}, "outputSize: expected values above 0"),
            Refused({"outputSize": (1, 1, 31)}, "outputSize: expected room"),
            Refused({"outputSize": (2**31, 2**31, 2**31)}, "there is no tensor"),
            Refused(unpooled((2, 4, 6, 8), (3, 2, 3, 4), (4, 6, 8)), "gradOutput: expected the first 1"),
        ),
    ),
    "upsample_nearest2d_backward": Order(
        accepted={
            "scales of any value": {"scalesH": 2.3, "scalesW": -1.0},
            "no channels": upsampled((8, 10), (2, 0, 4, 5)),
        },
        refused=(
            Refused(upsampled((8, 10), (2, 3, 0, 5)), "inputSize, outputSize: expected heights"),
            Refused(upsampled((8, 0), (2, 3, 4, 5)), "inputSize, outputSize: expected heights"),
            Refused({"inputSize": (1, 3, 4, 5)}, "gradOut: expected dim 0"),
            Refused({"inputSize": (2, 4, 4, 5)}, "gradOut: expected dim 1"),
            Refused({"outputSize": (9, 10)}, "gradOut: expected dim 2"),
            Refused({"outputSize": (8, 11)}, "gradOut: expected dim 3"),
            Refused(upsampled((8, 10), (-2, 3, 4, 5)), "gradOut: expected no negative"),
            Refused(upsampled((2**62, 2), (1, 1, 1, 1)), "gradOut: expected a view"),
        ),
    ),
}
