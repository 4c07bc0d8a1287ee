"""The gradients of elementwise functions, which share their checks."""

from collections.abc import Sequence
from typing import Any

from aclgrad.products import Product
from tools.abi.acl import DataType, Format, Scalar

from ..phase_one import NULL, Arguments, Order, Refused, Tensor, changing

FLOAT, FLOAT16, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
COMPLEX64, INT32 = DataType.COMPLEX64, DataType.INT32
SHAPE = (2, 3, 4)
HUGE = 2**62


def order(
    saved: str,
    output: str,
    attributes: Arguments | None = None,
    *,
    broadcasts: bool = True,
    mixes: Sequence[tuple[DataType, DataType, DataType]] = (),
    unmixable: Sequence[tuple[DataType, DataType, DataType]] = (),
    limits_rank: bool = True,
    refused: dict[str, Refused] | None = None,
    accepted: dict[str, Arguments] | None = None,
    as_on_950: tuple[str, ...] = (),
) -> Order:
    """Returns the rows of an operator; `mixes` has types of gradOutput, the saved tensor and the output.

    The 950 accepts those of `as_on_950`.
    """
    tensor = Tensor(SHAPE, format_=Format.ND)
    valid: Arguments = {"gradOutput": tensor, saved: tensor, **(attributes or {}), output: tensor}
    but = changing(valid)

    def mixed(types: tuple[DataType, DataType, DataType]) -> Arguments:
        return {name: Tensor(SHAPE, kind) for name, kind in zip(("gradOutput", saved, output), types, strict=True)}

    def shaped(grad: tuple[int, ...], own: tuple[int, ...], result: tuple[int, ...]) -> Arguments:
        return but("gradOutput", shape=grad) | but(saved, shape=own) | but(output, shape=result)

    fits = {
        "a row for all": shaped((4,), SHAPE, SHAPE),
        "both repeated": shaped((2, 1, 4), (3, 1), SHAPE),
        "one gradient for all": shaped((), SHAPE, SHAPE),
        "nothing after broadcasting": shaped((1, 3), (0, 1), (0, 3)),
    }
    misfits = {
        "sizes that do not fit": shaped((2, 2, 4), SHAPE, SHAPE),
        "the output unlike both": shaped((4,), SHAPE, (4,)),
    }
    rank_of_9 = shaped((1,) * 9, (1,) * 9, (1,) * 9)
    not_mixed = {f"not mixed {number}": Refused(mixed(types), "") for number, types in enumerate(unmixable)}
    not_fitting = {} if broadcasts else {name: Refused(each, "") for name, each in fits.items()}
    alone = {name: Refused({}, "", 0) for name in as_on_950}
    without_bf16 = {f"mixed {number}": Refused({}, "") for number, types in enumerate(mixes) if BF16 in types}
    return Order(
        valid,
        {
            "as it is": {},
            "other formats": but("gradOutput", format_=Format.NCHW) | but(output, format_=Format.FRACTAL_NZ),
            "strides": but(saved, strides=(1, 2, 6)) | but(output, strides=(12, 1, 3)),
            "nothing": but("gradOutput", saved, output, shape=(2, 0)),
            **{f"mixed {number}": mixed(types) for number, types in enumerate(mixes)},
            **(fits if broadcasts else {}),
            **({} if limits_rank else {"rank of 9": rank_of_9}),
            **(accepted or {}),
        },
        {
            "null comes first": Refused({saved: None, **but(output, data_type=INT32)}, f"{saved} must not be", NULL),
            "types before shapes": Refused(
                but(output, data_type=DataType.BOOL, shape=(1,)), f"{output}: expected data type"
            ),
            **not_mixed,
            **{name: Refused(each, "") for name, each in misfits.items()},
            **not_fitting,
            **({"rank of 9": Refused(rank_of_9, "gradOutput: expected a rank of at most 8")} if limits_rank else {}),
            "a negative dim": Refused(shaped((-2, 3), (-2, 3), (-2, 3)), "gradOutput: expected no negative"),
            "too large to exist": Refused(shaped((HUGE, 4), (HUGE, 4), (HUGE, 4)), ""),
            "before the storage": Refused(but(output, offset=-1), f"{output}: expected a view"),
            **(refused or {}),
        },
        {Product.ASCEND_950: alone, Product.ATLAS_TRAINING: without_bf16, Product.ATLAS_INFERENCE: without_bf16},
    )


_FITS = ("a row for all", "both repeated", "one gradient for all", "nothing after broadcasting")
SCALARS = ("float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")
_CASTS: Any = ((FLOAT, FLOAT, FLOAT16), (DOUBLE, FLOAT, BF16))
_NOT_CASTABLE: Any = ((FLOAT, COMPLEX64, FLOAT), (COMPLEX64, COMPLEX64, DOUBLE))
_MIXES: Any = ((FLOAT16, FLOAT, FLOAT), (FLOAT16, BF16, FLOAT))
_COMPLEX: Any = ((DOUBLE, COMPLEX64, DataType.COMPLEX128), (FLOAT, COMPLEX64, COMPLEX64))
_EQUAL_TYPES: Any = ((FLOAT16, FLOAT, FLOAT), (FLOAT, FLOAT, FLOAT16))

_NOTHING: Arguments = dict.fromkeys(("gradOutput", "self", "gradInput"), Tensor((0, 3)))

ORDERS = {
    "gelu_backward": order("self", "gradInput", mixes=(*_MIXES, _CASTS[0])),
    "gelu_backward_v2": order(
        "self",
        "gradInput",
        {"approximate": "none"},
        mixes=_MIXES,
        unmixable=_CASTS,
        limits_rank=False,
        refused={
            "null approximate": Refused({"approximate": None, "gradInput": None}, "approximate must not", NULL),
            "another approximation, also of nothing": Refused(
                {"approximate": "erf", **_NOTHING}, "approximate: expected none or tanh, got erf"
            ),
            "shapes before the approximation": Refused(
                {"approximate": "erf", "gradInput": Tensor((1,))}, "gradInput: expected the shape"
            ),
        },
    ),
    "threshold_backward": order(
        "self",
        "out",
        {"threshold": Scalar(0.5)},
        unmixable=_EQUAL_TYPES,
        refused={
            "null threshold": Refused({"threshold": None, "out": None, "self": None}, "threshold must not", NULL),
            "null out": Refused({"out": None, "self": None}, "out must not", NULL),
            "complex threshold": Refused({"threshold": Scalar(1j, "complex64")}, "threshold: expected a real"),
            "INT64": Refused(dict.fromkeys(("gradOutput", "self", "out"), Tensor(SHAPE, DataType.INT64)), "gradOutput"),
        },
        accepted={f"threshold of {kind}": {"threshold": Scalar(1, kind)} for kind in SCALARS},
    ),
    "hardswish_backward": order("self", "out", broadcasts=False, unmixable=_EQUAL_TYPES),
    "leaky_relu_backward": order(
        "self",
        "out",
        {"negativeSlope": Scalar(0.5), "selfIsResult": False},
        mixes=(*_MIXES, *_CASTS),
        refused={
            "null slope": Refused({"negativeSlope": None, "out": None}, "negativeSlope must not", NULL),
            "negative slope of a result": Refused(
                {"negativeSlope": Scalar(-0.5), "selfIsResult": True}, "negativeSlope: expected at least 0"
            ),
            "complex slope": Refused({"negativeSlope": Scalar(1j, "complex64")}, "negativeSlope: expected a real"),
        },
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
