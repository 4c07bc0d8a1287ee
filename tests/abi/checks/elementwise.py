"""The gradients of elementwise functions and of softmax."""

from collections.abc import Sequence
from typing import Any

from aclgrad.products import Product
from tools.abi.acl import DataType, Scalar

from ..phase_one import NULL, TILING, Changes, Order, Refused, changed, shapes

FLOAT, FLOAT16, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
COMPLEX64, INT32 = DataType.COMPLEX64, DataType.INT32
SHAPE = (2, 3, 4, 5)
HUGE = 2**62
Types = Sequence[tuple[DataType, DataType, DataType]]


def order(
    saved: str,
    output: str,
    *,
    broadcasts: bool = True,
    mixes: Types = (),
    unmixable: Types = (),
    limits_rank: bool = True,
    refused: tuple[Refused, ...] = (),
    accepted: dict[str, Changes] | None = None,
    as_on_950: tuple[str, ...] = (),
) -> Order:
    """Returns the rows of an operator; `mixes` has types of gradOutput, the saved tensor and the output.

    The 950 accepts those of `as_on_950`.
    """

    def mixed(types: tuple[DataType, DataType, DataType]) -> Changes:
        return {name: {"data_type": kind} for name, kind in zip(("gradOutput", saved, output), types, strict=True)}

    def shaped(grad: tuple[int, ...], own: tuple[int, ...], result: tuple[int, ...]) -> Changes:
        return shapes(**{"gradOutput": grad, saved: own, output: result})

    fits = {
        "a row for all": shaped((5,), SHAPE, SHAPE),
        "both repeated": shaped((2, 3, 1, 5), (4, 1), SHAPE),
        "one gradient for all": shaped((), SHAPE, SHAPE),
        "nothing after broadcasting": shaped((1, 3), (0, 1), (0, 3)),
    }
    rank_of_9 = shaped((1,) * 9, (1,) * 9, (1,) * 9)
    special = {f"not mixed {number}": mixed(types) for number, types in enumerate(unmixable)}
    special |= {} if broadcasts else fits
    without_bf16 = {f"mixed {number}": Refused(mixed(types), "") for number, types in enumerate(mixes) if BF16 in types}
    return Order(
        accepted={
            **{f"mixed {number}": mixed(types) for number, types in enumerate(mixes)},
            **(fits if broadcasts else {}),
            **({} if limits_rank else {"rank of 9": rank_of_9}),
            **(accepted or {}),
        },
        refused=(
            *(Refused(each, "") for name, each in special.items()),
            Refused(changed(output, data_type=DataType.BOOL), f"{output}: expected data type"),
            Refused(shaped((2, 2, 1, 5), SHAPE, SHAPE), ""),
            Refused(shaped((5,), SHAPE, (5,)), ""),
            *((Refused(rank_of_9, "gradOutput: expected a rank of at most 8"),) if limits_rank else ()),
            Refused(shaped((HUGE, 4), (HUGE, 4), (HUGE, 4)), ""),
            *refused,
        ),
        otherwise={
            Product.ASCEND_950: {name: Refused(special[name], "", 0) for name in as_on_950},
            Product.ATLAS_TRAINING: without_bf16,
            Product.ATLAS_INFERENCE: without_bf16,
        },
    )


SCALARS = ("float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")
_CASTS: Any = ((FLOAT, FLOAT, FLOAT16), (DOUBLE, FLOAT, BF16))
_NOT_CASTABLE: Any = ((FLOAT, COMPLEX64, FLOAT), (COMPLEX64, COMPLEX64, DOUBLE))
_MIXES: Any = ((FLOAT16, FLOAT, FLOAT), (FLOAT16, BF16, FLOAT))
_COMPLEX: Any = ((DOUBLE, COMPLEX64, DataType.COMPLEX128), (FLOAT, COMPLEX64, COMPLEX64))
_EQUAL_TYPES: Any = ((FLOAT16, FLOAT, FLOAT), (FLOAT, FLOAT, FLOAT16))
_FITS = ("a row for all", "both repeated", "one gradient for all", "nothing after broadcasting")

_EMPTY_ELU = changed("gradOutput", "selfOrResult", "gradInput", shape=(0, 3))

ROWS = ("gradOutput", "output", "out")
UNCHECKED: Changes = {"gradOutput": {"shape": (0, 3), "data_type": INT32}, "dim": 9}
SOFTMAX = Order(
    accepted={
        "the first axis from the last": {"dim": -3},
        "a scalar": shapes(gradOutput=(), output=(), out=()) | {"dim": 0},
        "a scalar from the last": shapes(gradOutput=(), output=(), out=()) | {"dim": -1},
        "as many rows as no memory holds": changed(*ROWS, shape=(2**31, 1)),
        "empty and else wrong": UNCHECKED,
    },
    refused=(
        Refused({"dim": 3}, "dim: expected -3 to 2"),
        Refused({"dim": -4}, "dim: expected -3 to 2"),
        Refused(changed(*ROWS, shape=()) | {"dim": 1}, "dim: expected -1 to 0"),
        Refused(changed(*ROWS, shape=(HUGE, 4)), ""),
    ),
    otherwise={
        Product.ASCEND_950: {"empty and else wrong": Refused(UNCHECKED, "gradOutput: expected data type")},
    },
)


def halved(self: tuple[int, ...], grad: tuple[int, ...], dim: int) -> Changes:
    return {"gradOut": {"shape": grad}, **changed("self", "out", shape=self), "dim": dim}


def parametrised(shape: tuple[int, ...], weight: tuple[int, ...]) -> Changes:
    return {
        **changed("gradOutput", "self", "gradInput", shape=shape),
        **changed("weight", "gradWeight", shape=weight),
    }


def gated(x: tuple[int, ...], y: tuple[int, ...], dim: int) -> Changes:
    return shapes(yGrad=y, x=x, out=x) | {"dim": dim}


def _bounds(name: str) -> tuple[Refused, ...]:
    return (
        Refused({name: None, "gradInput": None}, "gradInput must not", NULL),
        *(Refused({name: Scalar(each)}, f"{name}: expected at least 0") for each in (-0.5, float("nan"))),
    )


ELEMENTWISE = {
    "gelu_backward": order("self", "gradInput", mixes=(*_MIXES, _CASTS[0])),
    "gelu_backward_v2": order(
        "self",
        "gradInput",
        mixes=_MIXES,
        unmixable=_CASTS,
        limits_rank=False,
        refused=(
            Refused({"approximate": None, "gradInput": None}, "approximate must not", NULL),
            Refused({"approximate": "erf"}, "approximate: expected none or tanh, got erf"),
            Refused(
                {"approximate": "erf", **changed("gradOutput", "self", "gradInput", shape=(0, 3))},
                "approximate: expected none or tanh",
            ),
        ),
    ),
    "threshold_backward": order(
        "self",
        "out",
        unmixable=_EQUAL_TYPES,
        refused=(
            Refused({"threshold": None, "out": None, "self": None}, "threshold must not", NULL),
            Refused({"out": None, "self": None}, "out must not", NULL),
            Refused({"threshold": Scalar(1j, "complex64")}, "threshold: expected a real"),
            Refused(
                {"threshold": Scalar(0.5), **changed("gradOutput", "self", "out", data_type=DataType.INT64)},
                "gradOutput: expected data type",
            ),
        ),
        accepted={f"threshold of {kind}": {"threshold": Scalar(1, kind)} for kind in SCALARS},
    ),
    "elu_backward": order(
        "selfOrResult",
        "gradInput",
        broadcasts=False,
        mixes=_CASTS[:1],
        unmixable=_MIXES,
        refused=(
            *(Refused({name: None}, f"{name} must not", NULL) for name in ("alpha", "scale", "inputScale")),
            Refused({"scale": Scalar(1j, "complex64")}, "scale: expected a real"),
            Refused({"alpha": Scalar(-0.5), "isResult": True}, "alpha: expected at least 0"),
            Refused({"alpha": Scalar(-0.5), "isResult": True} | _EMPTY_ELU, "alpha: expected at least 0"),
        ),
        accepted={
            "alpha of 0 of a result": {"alpha": Scalar(0.0), "isResult": True},
            **{f"scale of {kind}": {"scale": Scalar(1, kind)} for kind in SCALARS},
        },
    ),
    "hardshrink_backward": order("self", "gradInput", mixes=(*_MIXES, _CASTS[0]), refused=_bounds("lambd")),
    "hardsigmoid_backward": order("self", "out", broadcasts=False, mixes=(*_MIXES, _CASTS[0])),
    "hardtanh_backward": order(
        "self",
        "out",
        broadcasts=False,
        unmixable=_EQUAL_TYPES,
        refused=(
            Refused({"self": None, "gradOutput": None}, "self must not", NULL),
            Refused({"out": None, "min": None, "max": None}, "out must not", NULL),
            Refused({"min": Scalar(1.5)}, "min: expected at most max"),
        ),
        accepted={"no room": {"min": Scalar(1.0)}},
    ),
    "log_sigmoid_backward": order(
        "self",
        "gradInput",
        broadcasts=False,
        limits_rank=False,
        unmixable=_EQUAL_TYPES,
        refused=(Refused({"buffer": None, "gradInput": None}, "buffer must not", NULL),),
    ),
    "mish_backward": order("self", "gradInput", mixes=(*_MIXES, _CASTS[0])),
    "softplus_backward": order(
        "self",
        "gradInput",
        broadcasts=False,
        mixes=(*_MIXES, *_CASTS, (FLOAT, INT32, FLOAT), (FLOAT16, DataType.BOOL, DOUBLE)),
        unmixable=((INT32, FLOAT, FLOAT), (FLOAT, FLOAT, INT32), *_NOT_CASTABLE),
        refused=(Refused({"beta": None}, "beta must not", NULL), Refused({"threshold": None}, "threshold must", NULL)),
    ),
    "softshrink_backward": order("self", "gradInput", unmixable=_EQUAL_TYPES, refused=_bounds("lambda")),
    "hardswish_backward": order("self", "out", broadcasts=False, unmixable=_EQUAL_TYPES),
    "leaky_relu_backward": order(
        "self",
        "out",
        mixes=(*_MIXES, *_CASTS),
        refused=(
            Refused({"negativeSlope": None, "out": None}, "negativeSlope must not", NULL),
            Refused({"negativeSlope": Scalar(-0.5), "selfIsResult": True}, "negativeSlope: expected at least 0"),
            Refused({"negativeSlope": Scalar(1j, "complex64")}, "negativeSlope: expected a real"),
        ),
        accepted={
            "slope of 0 of a result": {"negativeSlope": Scalar(0.0), "selfIsResult": True},
            **{f"slope of {kind}": {"negativeSlope": Scalar(1, kind)} for kind in SCALARS},
        },
    ),
    "sigmoid_backward": order("output", "gradInput", mixes=(*_MIXES, *_CASTS, *_COMPLEX), unmixable=_NOT_CASTABLE),
    "tanh_backward": order("output", "gradInput", unmixable=_EQUAL_TYPES),
    "silu_backward": order(
        "self", "gradInput", broadcasts=False, unmixable=_EQUAL_TYPES, as_on_950=(*_FITS, "not mixed 0")
    ),
}
ORDERS = ELEMENTWISE | {
    "softmax_backward": SOFTMAX,
    "log_softmax_backward": SOFTMAX,
    "dropout_do_mask": Order(
        accepted={
            "a longer mask of another shape": shapes(mask=(2, 16)),
            "nothing of all that is wrong": {"self": {"shape": (0, 3), "data_type": DOUBLE}, "prob": 2.0},
            "all dropped": {"prob": 1.0},
        },
        refused=(
            Refused({"self": {"shape": (0, 3)}, "mask": None}, "mask must not be null", NULL),
            *(Refused({"prob": each}, "prob: expected from 0 to 1") for each in (-0.1, 1.1, float("nan"))),
            Refused(shapes(mask=(15,)), "mask: expected at least 16 bytes"),
            # A device writes nothing then.
            Refused(shapes(mask=(0,)), "mask: expected at least 16 bytes"),
            Refused(shapes(self=(1,) * 9, out=(1,) * 9), "self: expected a rank of at most 8"),
            Refused(shapes(self=(HUGE, 4), out=(HUGE, 4)), ""),
        ),
    ),
    "prelu_backward": Order(
        accepted={
            "one weight of any shape": shapes(weight=(1, 1), gradWeight=(1, 1)),
            "weights of another shape": shapes(weight=(1, 3, 1)),
            "channels without elements": parametrised((2, 3, 0), (3,)),
            "no weights": parametrised((2, 0, 4), (0,)),
            "one weight of a scalar": parametrised((), (1,)),
        },
        refused=(
            Refused(parametrised((3,), (3,)), "weight: expected one element"),
            Refused(parametrised((3, 4), (3,)), "weight: expected one element"),
            Refused(shapes(weight=(1, 3, 1), gradWeight=(1, 3, 1)), "gradWeight: expected a list"),
            Refused(shapes(weight=(1, 1), gradWeight=(1,)), "gradWeight: expected the shape of weight"),
            # A device broadcasts it.
            Refused(shapes(gradOutput=(1,)), "gradOutput: expected the shape of self"),
            Refused(parametrised((1,) * 9, (1,)), "gradOutput: expected a rank of at most 8"),
            Refused(parametrised((HUGE, 3, 4), (3,)), ""),
        ),
    ),
    "glu_backward": Order(
        accepted={"from the end": {"dim": 2}, "nothing": halved((0, 6), (0, 3), 1)},
        refused=(
            *(Refused({"dim": dim}, f"dim: expected from -3 to 2, got {dim}") for dim in (3, -4)),
            Refused(halved((2, 5, 4), (2, 2, 4), 1), "self: expected dim 1 to be even"),
            Refused(halved((2, 6, 4), (2, 4, 4), 1), "gradOut: expected the shape of self with half of dim 1"),
            Refused(halved((1,) * 8 + (2,), (1,) * 9, -1), "self: expected a rank of at most 8"),
            Refused(halved((HUGE, 4), (HUGE, 2), 1), ""),
        ),
    ),
    "swi_glu_grad": Order(
        accepted={"from the end": {"dim": 2}},
        refused=(
            Refused({"dim": 3}, "dim: expected from -3 to 2, got 3", TILING),
            Refused({"dim": -4}, "dim: expected from -3 to 2, got -4", TILING),
            Refused(gated((2, 5, 4), (2, 2, 4), 1), "x: expected dim 1 to be even", TILING),
            # A device looks at the product with the sizes behind it, or not at all.
            Refused(gated((2, 6, 4), (2, 4, 4), 1), "yGrad: expected the shape of x with half of dim 1"),
            Refused(gated((2, 6, 4), (2, 6, 4), 1), "yGrad: expected the shape of x with half of dim 1"),
            Refused(gated((0, 6), (0, 3), 1), "x: expected elements", TILING),
        ),
    ),
}
