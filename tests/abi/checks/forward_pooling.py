"""Pooling itself; its gradients are in `pooling.py`."""

from typing import Any

from aclgrad.masks import Pooling
from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Changes, Order, Refused, changed, shapes
from .pooling import HUGE, WINDOWS


def pooled(out: tuple[int, ...], self: tuple[int, ...], **more: object) -> Changes:
    return changed("out", shape=out, **more) | changed("self", shape=self, **more)


def indexed(out: tuple[int, ...], self: tuple[int, ...], **more: object) -> Changes:
    return pooled(out, self, **more) | changed("indices", shape=out, **more)


def masked(self: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...] = (), **more: object) -> Changes:
    pooling = Pooling.of(self[-2:], kernel, stride)
    attributes: dict[str, Any] = {"kernelSize": kernel, "stride": stride, "padding": (0,)}
    mask: Changes = {"indices": {"shape": pooling.mask_shape(self[:-2]), "data_type": DataType.INT8, **more}}
    return pooled((*self[:-2], *pooling.output_size), self) | mask | attributes


_USUAL: Any = {"kernelSize": (3, 2), "stride": (2, 2), "padding": (1, 0), "dilation": (1,)}
_PLURALS = {"stride": "strides", "padding": "paddings"}
_AVERAGED = tuple(
    Refused(
        {_PLURALS.get(name, name): value for name, value in each.changes.items()},
        "paddings: expected" if each.message.startswith("padding") else each.message.replace("stride:", "strides:"),
    )
    for each in WINDOWS
)
_NOT_FULL = {
    f"mode {mode}": Refused({"cubeMathType": mode}, f"cubeMathType: expected 0 or 2 for FLOAT, got {mode}")
    for mode in (1, 3)
}
_HALVED = {
    f"mode {mode}": Refused(
        {"cubeMathType": mode, **changed("self", "out", data_type=DataType.FLOAT)}, "cubeMathType: expected 1 or 2"
    )
    for mode in (0, 3)
}

ORDERS = {
    "adaptive_avg_pool2d": Order(
        accepted={
            "BF16": changed("self", "out", data_type=DataType.BF16),
            "no height": pooled((2, 3, 7, 7), (2, 3, 0, 28)),
            "no channels": pooled((2, 0, 7, 7), (2, 0, 28, 28)),
        },
        refused=(
            Refused({"self": None, "outputSize": None, "out": None}, "self must not be null", NULL),
            Refused({"outputSize": None, "out": None}, "outputSize must not be null", NULL),
            Refused(pooled((7, 7), (28, 28)) | changed("out", data_type=DataType.DOUBLE), "self: expected rank"),
            Refused(shapes(out=(3, 7, 7)) | changed("self", data_type=DataType.DOUBLE), "out: expected the rank"),
            Refused(shapes(out=(2, 4, 7, 7)) | changed("self", data_type=DataType.DOUBLE), "out: expected the first 2"),
            Refused(changed("out", data_type=DataType.FLOAT16, format_=Format.ND), "out: expected the data type"),
            Refused(changed("out", format_=Format.ND) | {"outputSize": (7,)}, "out: expected the format of self"),
            Refused(changed("self", "out", format_=Format.NHWC) | {"outputSize": (7,)}, "self: expected format NCHW"),
            Refused({"outputSize": (7,)}, "outputSize: expected 2 values"),
            Refused({"outputSize": (8, 7)}, "out: expected dim 2"),
            Refused(pooled((2, 3, 0, 7), (2, 3, 28, 28)) | {"outputSize": (0, 7)}, "outputSize: expected values above"),
            Refused({"outputSize": (7, -7)}, "outputSize: expected values"),
            Refused(shapes(self=(2, 3, -28, 28)), "self: expected no negative dim"),
            Refused(shapes(self=(2, 3, HUGE, HUGE)), "self: expected a view"),
        ),
        otherwise={
            Product.ATLAS_TRAINING: {
                "BF16": Refused(changed("self", "out", data_type=DataType.BF16), "self: expected data type")
            },
            Product.ATLAS_INFERENCE: {
                "BF16": Refused(changed("self", "out", data_type=DataType.BF16), "self: expected data type")
            },
            Product.ASCEND_950: {
                "no height": Refused(pooled((2, 3, 7, 7), (2, 3, 0, 28)), "self: expected no empty dim from dim 2"),
                "no rows": Refused(pooled((2, 3, 0, 7), (2, 3, 28, 28)) | {"outputSize": (0, 7)}, "", 0),
                "negative": Refused(shapes(self=(2, 3, -28, 28)), "self: expected no empty dim from dim 2"),
            },
        },
    ),
    "avg_pool2d": Order(
        valid={"kernelSize": (3, 2), "strides": (2, 2), "paddings": (1, 0), "cubeMathType": 2}
        | pooled((2, 3, 5, 6), (2, 3, 9, 12)),
        accepted={
            "rank 3": pooled((3, 5, 6), (3, 9, 12), format_=Format.NCL),
            "stride of kernelSize": pooled((2, 3, 3, 6), (2, 3, 9, 12)) | {"strides": (), "paddings": (0,)},
            "no batch": pooled((0, 3, 5, 6), (0, 3, 9, 12)),
            "a huge stride": pooled((2, 3, 1, 1), (2, 3, 9, 12)) | {"strides": (HUGE,)},
            "a divisor": {"divisorOverride": -300},
            "a long plane in any mode": pooled((2, 3, 5, 16), (2, 3, 9, 32)) | {"cubeMathType": 1},
            "ceilMode in any mode": pooled((2, 3, 5, 6), (2, 3, 9, 12)) | {"cubeMathType": 1, "ceilMode": True},
            "mode 0": {"cubeMathType": 0},
            **{f"mode {mode}": {"cubeMathType": mode} for mode in (1, 3)},
            "mode 1 of halves": changed("self", "out", data_type=DataType.FLOAT16) | {"cubeMathType": 1},
        },
        refused=(
            *_AVERAGED,
            Refused({"self": None, "kernelSize": None, "strides": None}, "self must not be null", NULL),
            Refused({"kernelSize": None, "paddings": None}, "kernelSize must not be null", NULL),
            Refused({"strides": None, "paddings": None}, "strides must not be null", NULL),
            Refused({"paddings": None, "out": None}, "paddings must not be null", NULL),
            Refused(changed("out", format_=Format.NCL) | {"strides": (0,)}, "out: expected format NCHW"),
            Refused(pooled((3, 5, 6), (3, 9, 12)), "self: expected format NCL"),
            Refused(changed("self", "out", format_=Format.ND), "self: expected format"),
            Refused(pooled((2, 0, 5, 6), (2, 0, 9, 12)), "self: expected no empty dim"),
            Refused(shapes(self=(-2, 3, 9, 12)) | {"strides": (0,)}, "self: expected no negative dim"),
            Refused({"kernelSize": ()}, "kernelSize: expected 1 or 2 values"),
            Refused({"kernelSize": (20, 2)}, "kernelSize: expected a window"),
            Refused(shapes(out=(2, 3, 5, 7)) | {"cubeMathType": 4}, "out: expected one element for each window"),
            *(Refused({"cubeMathType": mode}, "cubeMathType: expected a value") for mode in (-1, 4)),
            Refused(
                pooled((1, 1, HUGE, HUGE), (1, 1, HUGE, HUGE)) | {"kernelSize": (1,), "strides": (), "paddings": (0,)},
                "self: expected a view",
            ),
        ),
        otherwise={
            Product.ATLAS_A2: _NOT_FULL,
            Product.ATLAS_A3: _NOT_FULL,
            Product.ATLAS_TRAINING: _HALVED,
            Product.ATLAS_INFERENCE: _HALVED,
        },
    ),
    "max_pool2d_with_indices": Order(
        valid=_USUAL | indexed((2, 3, 5, 6), (2, 3, 9, 12)),
        accepted={
            "INT64": changed("indices", data_type=DataType.INT64),
            "rank 3 in ND": indexed((3, 5, 6), (3, 9, 12), format_=Format.ND),
            "no batch": indexed((0, 3, 5, 6), (0, 3, 9, 12)),
            "a huge stride": indexed((2, 3, 1, 1), (2, 3, 9, 12)) | {"stride": (2**62,)},
        },
        refused=(
            *WINDOWS,
            Refused({"self": None, "kernelSize": None}, "self must not be null", NULL),
            Refused({"out": None, "indices": None, "dilation": None}, "dilation must not be null", NULL),
            Refused({"out": None, "indices": None}, "out must not be null", NULL),
            Refused(changed("out", data_type=DataType.FLOAT16, format_=Format.ND), "out: expected the data type"),
            Refused(changed("out", format_=Format.ND) | {"kernelSize": (0,)}, "out: expected the format of self"),
            Refused(changed("self", "out", format_=Format.NHWC), "self: expected format NCHW"),
            Refused({"dilation": (0,)}, "dilation: expected values"),
            Refused({"dilation": (1, 1, 1)}, "dilation: expected 1 or 2 values"),
            Refused(indexed((2, 0, 5, 6), (2, 0, 9, 12)), "self: expected no empty dim"),
            Refused({"kernelSize": (20, 2), "padding": (0, 0)}, "kernelSize: expected a window"),
            Refused(shapes(out=(2, 3, 5, 7), indices=(2, 3, 5, 8)), "out: expected one element for each window"),
            Refused(shapes(indices=(2, 3, 5, 7)), "indices: expected the shape of out"),
            Refused(
                indexed((1, 1, 1, 1), (1, 1, 2**16, 2**16)) | {"kernelSize": (2**16,), "stride": (), "padding": (0,)},
                "self: expected planes",
            ),
        ),
        otherwise={
            Product.ATLAS_A2: {"dilation of 2": Refused({"dilation": (1, 2)}, "dilation: expected values of 1")}
        },
    ),
    "max_pool2d_with_mask": Order(
        valid=masked((2, 3, 9, 12), (3, 2), (2, 2)) | {"dilation": (1,)},
        accepted={
            "rank 3": masked((17, 9, 12), (3, 2), (2, 2)),
            "windows of one cell": masked((2, 17, 4, 4), (1,)),
            "no batch": masked((0, 3, 9, 12), (3, 2), (2, 2)),
            "a storage behind an offset": masked((2, 3, 9, 12), (3, 2), (2, 2), offset=8),
        },
        refused=(
            *WINDOWS,
            Refused({"kernelSize": None, "self": None}, "kernelSize must not be null", NULL),
            Refused({"kernelSize": (), "self": None}, "self must not be null", NULL),
            Refused({"kernelSize": (), "out": None}, "out must not be null", NULL),
            Refused({"kernelSize": (), "stride": None}, "kernelSize: expected 1 or 2 values"),
            Refused({"dilation": (1, 2)}, "dilation: expected values of 1"),
            Refused(masked((2, 0, 9, 12), (3, 2), (2, 2)), "self: expected no empty dim"),
            Refused(shapes(indices=(2, 3, 5, 96)), "indices: expected that of a mask"),
            Refused(changed("indices", data_type=DataType.INT32), "indices: expected data type INT8"),
        ),
        otherwise={
            Product.ATLAS_INFERENCE: {
                "halves": Refused(changed("self", "out", data_type=DataType.FLOAT16), "self: expected data type FLOAT")
            },
        },
    ),
}
