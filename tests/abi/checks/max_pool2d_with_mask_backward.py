"""aclnnMaxPool2dWithMaskBackward."""

from aclgrad.masks import Pooling
from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Refused, Tensor, changing

TENSORS = ("gradOutput", "self", "gradInput")
HUGE = 2**62
Shape = tuple[int, ...]


def call(
    shape: Shape, kernel: Shape, stride: Shape = (), padding: Shape = (0,), kind: DataType = DataType.FLOAT
) -> Arguments:
    pooling = Pooling.of(shape[-2:], kernel, stride, padding)
    return {
        "gradOutput": Tensor((*shape[:-2], *pooling.output_size), kind),
        "self": Tensor(shape, kind),
        "indices": Tensor(pooling.mask_shape(shape[:-2]), DataType.INT8),
        "kernelSize": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": (1,),
        "ceilMode": False,
        "gradInput": Tensor(shape, kind),
    }


VALID = call((2, 3, 9, 12), (3, 2), (2, 2), (1, 0))  # gradOutput (2, 3, 5, 6)
but = changing(VALID)


def indices(*shape: int, **more: object) -> Arguments:
    return {"indices": Tensor(shape, DataType.INT8, **more)}


def empty(*shape: int) -> Arguments:
    return {"gradOutput": Tensor((*shape[:-2], 5, 6)), "self": Tensor(shape), "gradInput": Tensor(shape)}


WINDOWS_BYTES = 2 * 3 * 5 * 6 * 4
ONE = call((2, 17, 4, 4), (1,))  # 16 positions: the mask's words are 2 batches, 2 channel groups, 1 cell, 32 words
MASK_BYTES = ((2 * 2 - 1) * 32 + 16) * 2


ACCEPTED = {
    "as it is": {},
    "ND": but(*TENSORS, format_=Format.ND),
    "NHWC": but(*TENSORS, format_=Format.NHWC),
    "format of indices": but("indices", format_=Format.ND),
    "two dilations": {"dilation": (1, 1)},
    "a kernel larger than self": call((2, 3, 3, 4), (6,), (1,), (3,)),
    "a huge stride": call((2, 3, 9, 12), (3,), (2**62,), (1,)) | {"ceilMode": True},
    "a huge kernel": call((1, 1, 4, 4), (2**62,), (1,), (2**61,)) | indices(1, 1, 25 * 4),
    "as many windows with ceil mode": {"kernelSize": (2, 3), "ceilMode": True},
    "indices of another shape": indices(1, 1, WINDOWS_BYTES),
    "a storage larger than the view": indices(1, 1, 1, storage=(WINDOWS_BYTES,)),
    "a mask of another shape": ONE | indices(1, 1, MASK_BYTES),
    "strides": but("gradOutput", strides=(1, 2, 6, 30)),
}

REFUSED = {
    "gradOutput comes before indices": Refused({"gradOutput": None, "indices": None}, "gradOutput", NULL),
    "kernelSize's length before indices": Refused({"kernelSize": (), "indices": None}, "kernelSize", NULL),
    "self before kernelSize's length": Refused({"kernelSize": (), "self": None}, "self", NULL),
    "null before data types": Refused({"self": Tensor((1,), DataType.INT8), "gradInput": None}, "gradInput", NULL),
    "gradOutput unlike self": Refused(
        {"gradOutput": Tensor((2, 3, 5, 6), DataType.BF16)}, "gradOutput: expected the data"
    ),
    "gradInput unlike self": Refused(
        {"gradInput": Tensor((2, 3, 9, 12), DataType.BF16)}, "gradInput: expected the data"
    ),
    "format of gradOutput": Refused(but("gradOutput", format_=Format.ND), "gradOutput: expected the format"),
    "format of gradInput": Refused(but("gradInput", format_=Format.ND), "gradInput: expected the format"),
    "private formats": Refused(but(*TENSORS, format_=Format.NC1HWC0), "gradOutput: expected a plain"),
    "private format of indices": Refused(but("indices", format_=Format.NC1HWC0), "indices: expected a plain"),
    "rank 5": Refused({"gradOutput": Tensor((1, 2, 3, 5, 6))}, "gradOutput: expected rank"),
    "rank of indices": Refused(indices(100000), "indices: expected rank"),
    "rank of gradInput": Refused({"gradInput": Tensor((9, 12))}, "gradInput: expected rank"),
    "kernel of 0": Refused({"kernelSize": (3, 0)}, "kernelSize: expected values above 0"),
    "negative kernel": Refused({"kernelSize": (-3,)}, "kernelSize: expected values above 0"),
    "stride of 0": Refused({"stride": (0,)}, "stride: expected values above 0"),
    "negative stride": Refused({"stride": (2, -2)}, "stride: expected values above 0"),
    "negative padding": Refused({"padding": (-1, 0)}, "padding: expected values from 0 to half"),
    "padding of more than half a kernel": Refused({"padding": (1, 2)}, "padding: expected values from 0 to half"),
    "half of 3 is 1": Refused({"padding": (2, 1)}, "padding: expected values from 0 to half"),
    "dilation of 2": Refused({"dilation": (1, 2)}, "dilation: expected values of 1"),
    "dilation of 0": Refused({"dilation": (0,)}, "dilation: expected values of 1"),
    "lengths before values": Refused({"kernelSize": (0,), "dilation": ()}, "dilation: expected 1 or 2 values"),
    "shape of gradInput": Refused({"gradInput": Tensor((2, 3, 12, 9))}, "gradInput: expected the shape"),
    "rank of gradInput unlike self": Refused({"gradInput": Tensor((6, 9, 12))}, "gradInput: expected the shape"),
    "no channels": Refused(empty(2, 0, 9, 12), "self: expected no empty dim"),
    "no rows": Refused(empty(2, 3, 0, 12), "self: expected no empty dim"),
    "rank 3 without channels": Refused(empty(0, 9, 12), "self: expected no empty dim"),
    "a negative dim": Refused(empty(2, 3, 9, -12), "self: expected no negative dim"),
    "a window that does not fit": Refused({"kernelSize": (20, 2), "padding": (0, 0)}, "kernelSize: expected a window"),
    "height of gradOutput": Refused({"gradOutput": Tensor((2, 3, 4, 6))}, "gradOutput: expected shape [2, 3, 5, 6]"),
    "fewer windows without ceil mode": Refused({"kernelSize": (2, 3)}, "gradOutput: expected shape [2, 3, 5, 5]"),
    "rank of gradOutput": Refused({"gradOutput": Tensor((6, 5, 6))}, "gradOutput: expected shape [2, 3, 5, 6]"),
    "batch of gradOutput": Refused({"gradOutput": Tensor((1, 3, 5, 6))}, "gradOutput: expected shape [2, 3, 5, 6]"),
    "an argmax that ends too early": Refused(
        indices(1, 1, WINDOWS_BYTES - 1), f"indices: expected at least {WINDOWS_BYTES} bytes"
    ),
    "a mask that ends too early": Refused(
        ONE | indices(1, 1, MASK_BYTES - 1), f"indices: expected at least {MASK_BYTES} bytes"
    ),
    "a mask that is larger than its view": Refused(
        ONE | indices(1, 1, 1, storage=(MASK_BYTES,)), f"indices: expected at least {MASK_BYTES} bytes"
    ),
    "a negative dim of indices": Refused(indices(2, 3, -6, 96), "indices: expected no negative"),
    "too large to exist": Refused(call((1, 1, HUGE, HUGE), (2,)), "gradOutput: expected a view"),
    "before the storage": Refused(but("gradInput", offset=-1), "gradInput: expected a view"),
}

# 910A has no BF16, and a mask for windows of any size.
OTHERWISE = {
    Product.ATLAS_TRAINING: {
        "indices of another shape": Refused({}, "indices: expected at least"),
        "a storage larger than the view": Refused({}, "indices: expected at least"),
        "a huge kernel": Refused({}, "indices: expected at least"),
        "an argmax that ends too early": Refused({}, "indices: expected at least"),
    },
}
