"""Functions of each element: of two tensors, of one, and of a tensor and a number."""

from collections.abc import Iterator, Sequence

from aclgrad.products import Product
from tools.abi.acl import DataType, Scalar

from ..phase_one import NULL, Changes, Order, Refused, changed, shapes

BOOL, UINT8, INT8, INT16 = DataType.BOOL, DataType.UINT8, DataType.INT8, DataType.INT16
INT32, INT64, COMPLEX64 = DataType.INT32, DataType.INT64, DataType.COMPLEX64
FLOAT, FLOAT16, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
SHAPE = (2, 3, 4, 5)
HUGE = 2**62
INTEGER = Scalar(1, "int64")
INNER_NULL = 561103
Mix = tuple[DataType, ...]


def typed(names: Sequence[str], types: Mix) -> Changes:
    return {name: {"data_type": kind} for name, kind in zip(names, types, strict=True)}


def order(
    *names: str,
    mixes: Sequence[Mix] = (),
    unmixable: Sequence[Mix] = (),
    limits_rank: bool = True,
    accepted: dict[str, Changes] | None = None,
    refused: Sequence[Refused] = (),
    valid: Changes | None = None,
) -> Order:
    """Returns the rows of an operator with these tensors, of which the last is the result; mixes have their types."""
    *inputs, out = names
    nine = changed(*names, shape=(1,) * 9)
    with_bf16 = {
        f"mixed {number}": Refused(typed(names, each), "") for number, each in enumerate(mixes) if BF16 in each
    }
    return Order(
        accepted={
            **{f"mixed {number}": typed(names, each) for number, each in enumerate(mixes)},
            **({} if limits_rank else {"rank of 9": nine}),
            **(accepted or {}),
        },
        refused=(
            *(Refused(typed(names, each), f"{out}: expected") for each in unmixable),
            Refused(shapes(**dict.fromkeys(inputs, SHAPE), **{out: (5,)}), f"{out}: expected the shape of"),
            *((Refused(nine, f"{inputs[0]}: expected a rank of at most 8"),) if limits_rank else ()),
            Refused(changed(*names, shape=(HUGE, 4)), ""),
            *refused,
        ),
        otherwise={
            Product.ATLAS_TRAINING: with_bf16,
            Product.ATLAS_INFERENCE: with_bf16,
        },
        valid=valid or {},
    )


def binary(*names: str, mixes: Sequence[Mix], unmixable: Sequence[Mix], refused: Sequence[Refused] = ()) -> Order:
    """The same, with inputs that are broadcast."""
    *most, last, out = names

    def shaped(one: tuple[int, ...], other: tuple[int, ...], result: tuple[int, ...]) -> Changes:
        return shapes(**dict.fromkeys(most, one), **{last: other, out: result})

    return order(
        *names,
        mixes=mixes,
        unmixable=unmixable,
        accepted={
            "a row for all": shaped((5,), SHAPE, SHAPE),
            "both repeated": shaped((2, 3, 1, 5), (4, 1), SHAPE),
            "one for all": shaped(SHAPE, (), SHAPE),
            "nothing after broadcasting": shaped((1, 3), (0, 1), (0, 3)),
        },
        refused=(
            Refused(shaped((2, 2, 1, 5), SHAPE, SHAPE), f"{last}: expected a shape that can be broadcast"),
            Refused(shaped((5,), (0, 5), (5,)), f"{out}: expected the shape of the inputs"),
            *refused,
        ),
    )


TWO = ("self", "other", "out")
ONE = ("self", "out")
_MIXES = (
    (FLOAT16, FLOAT, FLOAT), (FLOAT16, BF16, FLOAT16), (INT32, FLOAT16, DOUBLE), (UINT8, INT8, INT16),
    (INT8, INT8, INT64), (DOUBLE, INT64, BF16),
)  # fmt: skip
_NO_CAST = ((FLOAT, FLOAT, INT32), (FLOAT16, INT32, INT64), (INT8, INT8, BOOL), (FLOAT, FLOAT, COMPLEX64))
_FLAGS = ((FLOAT16, FLOAT, BOOL), (INT8, BF16, FLOAT16), (BOOL, BOOL, INT64), (DOUBLE, UINT8, FLOAT))
_KINDS = ("float32", "float64", "int64", "int8", "bool")
_REAL = ((FLOAT, FLOAT16), (DOUBLE, FLOAT), (FLOAT16, BF16), (INT64, FLOAT))
_NOT_REAL = ((FLOAT, INT32), (INT32, INT32), (FLOAT, BOOL), (FLOAT, COMPLEX64))


def _alphas(*names: str) -> Iterator[Refused]:
    """An integer type takes no other factor."""
    whole = changed(*names, data_type=INT32)
    yield Refused({"alpha": None, "out": None}, "alpha must not", NULL)
    yield Refused({**whole, "other": whole.get("other", INTEGER), "alpha": Scalar(0.5)}, "alpha: expected")
    yield Refused({"alpha": Scalar(1j, "complex64")}, "alpha: expected")


def _numbers(name: str) -> tuple[Refused, ...]:
    return (
        Refused({name: None, "out": None}, f"{name} must not", NULL),
        Refused({name: Scalar(1j, "complex64"), "out": None}, "out must not", NULL),
        Refused({name: Scalar(1j, "complex64")}, f"{name}: expected a real"),
    )


def _kinds(name: str) -> dict[str, Changes]:
    return {f"{name} of {kind}": {name: Scalar(1, kind)} for kind in _KINDS}


def _comparison(*, has_null: bool = True) -> Order:
    return order(
        *ONE,
        mixes=((FLOAT16, BOOL), (INT8, BF16), (BOOL, INT64), (DOUBLE, UINT8)),
        unmixable=((FLOAT, COMPLEX64),),
        accepted=_kinds("other"),
        refused=_numbers("other")[0 if has_null else 1 :],
    )


LARGE = {"exponent": Scalar(300, "int64"), **changed(*ONE, data_type=INT8)}
NEGATIVE = {"exponent": Scalar(-1, "int64"), **changed(*ONE, data_type=INT32)}
ORDERS = {
    "add": binary(*TWO, mixes=_MIXES, unmixable=_NO_CAST, refused=tuple(_alphas(*TWO))),
    "sub": binary(
        *TWO,
        mixes=_MIXES,
        unmixable=_NO_CAST,
        refused=(*_alphas(*TWO), Refused({**typed(TWO, (BOOL,) * 3), "alpha": Scalar(True, "bool")}, "self: expected")),
    ),
    "mul": binary(*TWO, mixes=(*_MIXES, (BOOL, BOOL, FLOAT16)), unmixable=_NO_CAST),
    "maximum": binary(*TWO, mixes=(*_MIXES, (BOOL, BOOL, FLOAT16)), unmixable=_NO_CAST),
    "minimum": binary(*TWO, mixes=_MIXES, unmixable=_NO_CAST),
    "div": binary(
        *TWO,
        mixes=((FLOAT16, FLOAT, FLOAT), (FLOAT16, BF16, FLOAT16), (INT32, INT8, FLOAT16), (BOOL, BOOL, DOUBLE)),
        unmixable=(*_NO_CAST[:2], (INT32, INT32, INT32), (BOOL, BOOL, BOOL)),
        refused=(
            Refused({"out": None, "other": None}, "out must not", NULL),
            Refused({"other": None, "self": None}, "other must not", NULL),
            # Shapes before types.
            Refused({"self": {"data_type": COMPLEX64}, "out": {"shape": (5,)}}, "out: expected the shape"),
        ),
    ),
    "s_where": binary(
        "condition",
        *TWO,
        mixes=(
            (UINT8, FLOAT16, FLOAT, FLOAT), (BOOL, INT32, BF16, FLOAT16), (BOOL, BOOL, UINT8, INT64),
        ),
        unmixable=((BOOL, FLOAT, FLOAT, INT32), (BOOL, INT8, INT8, BOOL)),
        refused=(
            Refused({"self": None, "condition": None}, "self must not", NULL),
            Refused({"other": None, "condition": None}, "other must not", NULL),
            Refused({"condition": {"data_type": INT8}}, "condition: expected data type BOOL or UINT8"),
        ),
    ),
    "eq_tensor": binary(*TWO, mixes=_FLAGS, unmixable=((FLOAT, FLOAT, COMPLEX64),)),
    "gt_tensor": binary(*TWO, mixes=_FLAGS, unmixable=((FLOAT, FLOAT, COMPLEX64),)),
    "neg": order(*ONE, mixes=(*_REAL, (INT8, INT64)), unmixable=((FLOAT, INT32), (INT8, BOOL))),
    "abs": order(*ONE, mixes=((DOUBLE, DOUBLE), (BOOL, BOOL), (INT16, INT16)), unmixable=(_REAL[0], (INT8, INT16))),
    "exp": order(*ONE, mixes=(*_REAL, (BOOL, FLOAT16)), unmixable=(*_NOT_REAL[::2], (INT64, INT64))),
    "log": order(*ONE, mixes=(*_REAL, (UINT8, FLOAT16)), unmixable=_NOT_REAL),
    "sqrt": order(*ONE, mixes=(*_REAL, (INT16, FLOAT16)), unmixable=_NOT_REAL),
    "rsqrt": order(*ONE, mixes=(*_REAL, (BOOL, FLOAT16)), unmixable=_NOT_REAL),
    "reciprocal": order(*ONE, mixes=(*_REAL, (INT8, FLOAT16)), unmixable=_NOT_REAL),
    "sigmoid": order(*ONE, mixes=(*_REAL, (DOUBLE, DOUBLE), (INT8, FLOAT16)), unmixable=_NOT_REAL),
    "tanh": order(*ONE, mixes=(*_REAL[::3], (BOOL, FLOAT16)), unmixable=(*_NOT_REAL, (FLOAT, DOUBLE))),
    "relu": order(*ONE, mixes=((INT8, INT8), (UINT8, UINT8)), unmixable=(_REAL[0], (INT32, INT64))),
    "silu": order(*ONE, unmixable=(_REAL[0],), limits_rank=False),
    "gelu_v2": order(
        "x", "y", unmixable=(_REAL[0],), limits_rank=False, accepted={"any other form": {"approximate": 7}}
    ),
    "hardswish": order(*ONE, mixes=(_REAL[0], (BF16, FLOAT)), unmixable=(*_NOT_REAL[::2],), limits_rank=False),
    "leaky_relu": order(
        *ONE,
        mixes=(_REAL[0], (DOUBLE, BF16)),
        unmixable=_NOT_REAL[::2],
        accepted=_kinds("negativeSlope"),
        refused=(
            Refused({"negativeSlope": None, "out": None}, "negativeSlope must not", NULL),
            Refused({"negativeSlope": Scalar(1j, "complex64")}, "negativeSlope: expected a real"),
        ),
    ),
    "adds": order(
        *ONE,
        mixes=(*_REAL, (INT8, INT64)),
        unmixable=((FLOAT, INT32), (FLOAT, BOOL)),
        valid={"other": INTEGER},
        accepted={
            **_kinds("other"),
            "a flag and an integer": {**typed(ONE, (BOOL, INT64)), "other": Scalar(2, "int64"), "alpha": INTEGER},
        },
        refused=(
            *_numbers("other"),
            *_alphas(*ONE),
            Refused({**changed(*ONE, data_type=INT32), "other": Scalar(0.5, "float32")}, "out: expected a type"),
        ),
    ),
    "muls": order(
        *ONE,
        mixes=(*_REAL, (BOOL, FLOAT)),
        unmixable=((FLOAT, INT32), (FLOAT, BOOL)),
        limits_rank=False,
        accepted=_kinds("other"),
        refused=_numbers("other"),
    ),
    "divs": order(
        *ONE,
        mixes=(*_REAL, (INT32, FLOAT), (BOOL, FLOAT16)),
        unmixable=_NOT_REAL,
        accepted=_kinds("other"),
        refused=_numbers("other"),
    ),
    "pow_tensor_scalar": order(
        *ONE,
        mixes=(_REAL[0], (INT8, INT64), (BOOL, INT64)),
        unmixable=((FLOAT, INT32), (FLOAT, BOOL)),
        accepted={
            **_kinds("exponent"),
            "nothing to a negative power": NEGATIVE | changed(*ONE, data_type=INT32, shape=(0, 3)),
        },
        refused=(
            *_numbers("exponent"),
            Refused({**typed(ONE, (BOOL, BOOL)), "exponent": Scalar(True, "bool")}, "exponent: expected"),
            Refused(NEGATIVE, "exponent: expected at least 0"),
            Refused(LARGE, "exponent: expected a number of INT8"),
        ),
    ),
    "clamp": order(
        *ONE,
        mixes=((FLOAT, FLOAT16), (INT32, INT64), (INT8, FLOAT)),
        unmixable=((FLOAT, INT32),),
        accepted={
            "one bound": {"clipValueMin": None, "clipValueMax": Scalar(2, "int64")},
            "the other": {"clipValueMin": Scalar(2, "int64"), "clipValueMax": None},
            "nothing that cannot be cast": {"self": {"shape": (0, 3)}, "out": {"shape": (0, 3), "data_type": INT32}},
        },
        refused=(
            Refused({"clipValueMin": None, "clipValueMax": None}, "clipValueMin must not", NULL),
            Refused({"clipValueMin": None, "clipValueMax": None, "out": None}, "out must not", NULL),
            Refused({**changed(*ONE, data_type=INT32), "clipValueMin": Scalar(0.5, "float32")}, "out: expected a type"),
            Refused({**changed(*ONE, data_type=INT8), "clipValueMax": Scalar(300, "int64")}, "clipValueMax: expected"),
        ),
    ),
    "gt_scalar": _comparison(),
    "ge_scalar": _comparison(),
    "lt_scalar": _comparison(has_null=False),
    "le_scalar": _comparison(),
    "eq_scalar": _comparison(),
}  # fmt: skip
