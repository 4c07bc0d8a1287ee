"""Attention: what is refused and by which words, what the operators get, and the statistics that PyTorch saves."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.errors import InvalidFieldError
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.families.attention.layouts import LAYOUTS, heads_of, laid_out
from aclgrad.operators.families.attention.samples import attention_case
from aclgrad.operators.spec import Arguments
from aclgrad.operators.validation import check_call
from aclgrad.products import Product
from aclgrad.sources import SHAPE_ONLY
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.messages import OperatorCall

A2 = Product.ATLAS_A2
FORWARD, GRADIENT = "flash_attention_score", "flash_attention_score_grad"
LOWEST = float(np.finfo(np.float32).min)
ALL = 2**31 - 1
SCALE = 1 / math.sqrt(8)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """A call of the gradient with 4 heads of the query and 2 of the key, and what is changed about it."""

    shapes: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    layout: str = "BNSD"
    operator: str = GRADIENT

    @property
    def arguments(self) -> Arguments:
        made = attention_case("call", self.layout, 3, 4, 5, 7, 8, shared=2, operator=self.operator)
        shapes = {name: each for name, each in {**made.shapes, **self.shapes}.items() if each is not None}
        spec, fixed = OPERATORS[self.operator], {**made.fixed, **self.dtypes}
        types = {name: TensorType(DTYPES[fixed.get(name, "float32")], shape) for name, shape in shapes.items()}
        return Arguments(types, {**spec.defaults, **made.attributes, **self.attributes})

    def told(self) -> str:
        return "; ".join(map(str, OPERATORS[self.operator].check(self.arguments, A2)))


FLAT = {"query": (3, 5, 32), "key_in": (3, 7, 16), "value": (3, 7, 16), "dy": (3, 5, 32), "attention_in": (3, 5, 32)}
BIASED = f"{GRADIENT}_v2"
REFUSED = {
    "another dtype": (
        Call(dtypes={"value": "float16"}),
        "inputs[value].data_type is float16, but inputs[query] is float32; send it as float32",
    ),
    "a bias of another dtype": (
        Call(operator=BIASED, dtypes={"pse_shift": "float16"}), "inputs[pse_shift].data_type is float16",
    ),
    "a rank of another layout": (
        Call({"dy": (3, 5, 32)}), "inputs[dy].shape has 3 dimensions, and the layout BNSD has 4; send 4 sizes, or",
    ),
    "no number of heads": (
        Call(layout="BSH", attributes={"head_num": None}),
        "attributes[head_num] is missing, and the layout BSH does not show how many heads there are; send the number",
    ),
    "another number of heads": (
        Call(attributes={"head_num": 2}),
        "attributes[head_num] is 2, and inputs[query] of the layout BNSD has 4 heads; send 4, or leave it out",
    ),
    "heads that do not divide the axis": (
        Call(layout="BSH", attributes={"head_num": 5}),
        "inputs[query].shape is (3, 5, 32), whose last size 5 heads do not divide; send a multiple of head_num",
    ),
    "keys without whole heads": (
        Call(FLAT | {"key_in": (3, 7, 20)}, layout="BSH"),
        "inputs[key_in].shape is (3, 7, 20), whose last size heads of 8 elements do not divide; send a multiple of 8",
    ),
    "values without whole heads": (
        Call(FLAT | {"value": (3, 7, 15)}, layout="BSH"),
        "inputs[value].shape is (3, 7, 15), whose last size the 2 heads of inputs[key_in] do not divide",
    ),
    "another batch of keys": (
        Call({"key_in": (2, 2, 7, 8), "value": (2, 2, 7, 8)}),
        "inputs[key_in].shape is (2, 2, 7, 8), with 2 sequences, and inputs[query] has 3; send equal batches",
    ),
    "other values than keys": (
        Call({"value": (3, 2, 6, 8)}),
        "inputs[value].shape is (3, 2, 6, 8), and inputs[key_in] is (3, 2, 7, 8); send equal sizes but for the last",
    ),
    "another size of keys": (
        Call({"key_in": (3, 2, 7, 9)}), "is (3, 2, 7, 9), and heads of inputs[query] have 8 elements; send 8 as the",
    ),
    "larger values than keys": (
        Call({"value": (3, 2, 7, 9)}),
        "with heads of 9 elements, and those of inputs[key_in] have fewer; send heads of at most 8, or pad query",
    ),
    "heads of the key that do not divide": (
        Call({"key_in": (3, 3, 7, 8), "value": (3, 3, 7, 8)}),
        "with 3 heads, which do not divide the 4 of inputs[query]; send a divisor of the query's heads",
    ),
    "no heads of the key": (
        Call({"key_in": (3, 0, 7, 8), "value": (3, 0, 7, 8)}), "with 0 heads, which do not divide the 4",
    ),
    "heads without elements": (
        Call({"query": (3, 4, 5, 0), "key_in": (3, 2, 7, 0), "value": (3, 2, 7, 0)}),
        "inputs[query].shape is (3, 4, 5, 0), with heads of 0 elements; send heads of at least 1",
    ),
    "large heads": (
        Call({"query": (3, 4, 5, 769), "key_in": (3, 2, 7, 769)}), "with 769 elements in a head; send at most 768",
    ),
    "many heads": (
        Call({"query": (1, 4096, 5, 8), "key_in": (1, 2, 7, 8), "value": (1, 2, 7, 8)}),
        "with 4096 heads; send at most 2048, or split the call",
    ),
    "many positions": (
        Call({"query": (1, 4, 2**20 + 1, 8), "key_in": (1, 2, 7, 8), "value": (1, 2, 7, 8)}), "with 1048577 positions",
    ),
    "many keys": (
        Call({"key_in": (3, 2, 2**20 + 1, 8), "value": (3, 2, 2**20 + 1, 8)}),
        "inputs[key_in].shape is (3, 2, 1048577, 8), with 1048577 positions; send at most 1048576",
    ),
    "many sequences": (
        Call({"query": (2**21 + 1, 4, 5, 8), "key_in": (2**21 + 1, 2, 7, 8), "value": (2**21 + 1, 2, 7, 8)}),
        "with 2097153 sequences; send at most 2097152",
    ),
    "a gradient of other queries": (
        Call({"dy": (3, 4, 6, 8)}),
        "inputs[dy].shape is (3, 4, 6, 8), and the call has 4 heads of 5 queries in 3 sequences, and values of 8",
    ),
    "a result of query's size": (
        Call({"value": (3, 2, 7, 6), "dy": (3, 4, 5, 6)}), "inputs[attention_in].shape is (3, 4, 5, 8)",
    ),
    "statistics of another order": (
        Call({"softmax_max": (3, 5, 4)}),
        "inputs[softmax_max].shape is (3, 5, 4), and the call has 4 heads of 5 queries in 3 sequences, and values of 8 "
        "elements; send (3, 4, 5) or (3, 4, 5, 8)",
    ),
    "statistics of one lane": (Call({"softmax_sum": (3, 4, 5, 1)}), "send (3, 4, 5) or (3, 4, 5, 8)"),
    "a mask of each head": (
        Call({"atten_mask": (1, 4, 5, 7)}),
        "inputs[atten_mask].shape is (1, 4, 5, 7), a shape that devices do not broadcast; send (3, 4, 5, 7) or "
        "(3, 1, 5, 7) or (1, 1, 5, 7) or (5, 7)",
    ),
    "a mask of keys": (Call({"atten_mask": (3, 1, 1, 7)}), "a shape that devices do not broadcast"),
    "a mask beside the server's": (
        Call({"atten_mask": (5, 7)}, {"sparse_mode": 2}),
        "inputs[atten_mask] is sent with sparse_mode 2, whose mask the server has; leave it out, or send sparse_mode 1",
    ),
    "a bias of one head": (
        Call({"pse_shift": (3, 1, 5, 7)}, operator=BIASED),
        "inputs[pse_shift].shape is (3, 1, 5, 7), a shape that devices do not broadcast; send (3, 4, 5, 7) or "
        "(1, 4, 5, 7) or (3, 4, 1, 7)",
    ),
}  # fmt: skip
TAKEN = {
    "a call": Call(),
    "sequences behind each other": Call(layout="SBH"),
    "positions first": Call(layout="BSND"),
    "fewer elements in values": Call({"value": (3, 2, 7, 3), "dy": (3, 4, 5, 3), "attention_in": (3, 4, 5, 3)}),
    "statistics of three axes": Call({"softmax_max": (3, 4, 5), "softmax_sum": (3, 4, 5)}),
    "its own number of heads": Call(attributes={"head_num": 4}),
    **{f"a mask {shape}": Call({"atten_mask": shape}) for shape in ((3, 4, 5, 7), (3, 1, 5, 7), (1, 1, 5, 7), (5, 7))},
    "a bias of all sequences": Call({"pse_shift": (1, 4, 5, 7)}, operator=BIASED),
    "a bias of all queries": Call({"pse_shift": (3, 4, 1, 7)}, operator=BIASED),
    "a negative scale": Call(attributes={"scale_value": -2.0}),
    "no keys": Call({"key_in": (3, 2, 0, 8), "value": (3, 2, 0, 8)}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str) -> None:
    call, told = REFUSED[name]
    assert told in call.told()


@pytest.mark.parametrize("name", TAKEN)
def test_it_is_taken(name: str) -> None:
    assert not TAKEN[name].told()


def checked(operator: str, attributes: dict[str, Any], *more: str, dtype: str = "float32") -> Arguments:
    spec = OPERATORS[operator]
    types = {name: TensorType(DTYPES[dtype], (1, 1, 2, 4)) for name in ("query", "key", "value", *more)}
    return check_call(
        OperatorCall(operator, tuple(TensorView(name, type, SHAPE_ONLY) for name, type in types.items()), attributes),
        spec,
        A2,
    )


@pytest.mark.parametrize(
    ("attributes", "inputs", "told"),
    [
        ({"input_layout": "TND"}, (), "[input_layout] is 'TND', which is not served: sequences of several lengths in"),
        ({"input_layout": "NSD"}, (), "[input_layout] is 'NSD'; send 'BNSD' or 'BSND' or 'BSH' or 'SBH'"),
        ({"sparse_mode": 4}, (), "[sparse_mode] is 4, which is not served: a band; send it as atten_mask; send 0 to 3"),
        ({"sparse_mode": 6}, (), "[sparse_mode] is 6, which is not served: the masks of prefixes"),
        ({"sparse_mode": 7}, (), "[sparse_mode] is 7, which is not served: sequences of several lengths"),
        ({"sparse_mode": 9}, (), "[sparse_mode] is 9; send at most 3"),
        ({"scale_value": 1e39}, (), "[scale_value] is 1e+39; send at most 3.4"),
        ({"keep_prob": 0.9}, (), "attributes[keep_prob] is not served: a device draws other numbers than"),
        ({"prefix": (1,)}, (), "attributes[prefix] is not served: the masks of prefixes (sparse modes 5 and 6)"),
        ({"actual_seq_qlen": (1,)}, (), "attributes[actual_seq_qlen] is not served: sequences of several lengths"),
        ({}, ("real_shift",), "inputs[real_shift] is not served: use flash_attention_score_v2, which adds it"),
        ({}, ("drop_mask",), "inputs[drop_mask] is not served: a device draws other numbers"),
    ],
)
def test_parameters_that_are_not_served_are_refused_by_name(
    attributes: dict[str, Any], inputs: tuple[str, ...], told: str
) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        checked(FORWARD, attributes, *inputs)
    assert told in str(caught.value)


def test_a_gradient_of_the_bias_is_refused_with_the_reason() -> None:
    given = Call(operator=BIASED).arguments.inputs
    views = tuple(TensorView(name, type, SHAPE_ONLY) for name, type in given.items())
    with pytest.raises(InvalidFieldError, match=r"outputs\[dpse\] is not served: devices compute no gradient of what"):
        check_call(OperatorCall(BIASED, views, {}, outputs=("dpse",)), OPERATORS[BIASED], A2)


@pytest.mark.parametrize(
    ("call", "numbers"),
    [
        (Call(), (SCALE, 1.0, ALL, ALL, 4, "BNSD", 0, 0)),
        (Call(layout="SBH", attributes={"scale_value": 0.5}), (0.5, 1.0, ALL, ALL, 4, "SBH", 0, 0)),
        (Call({"atten_mask": (5, 7)}), (SCALE, 1.0, ALL, ALL, 4, "BNSD", 2, 0)),
        (Call({"atten_mask": (5, 7)}, {"sparse_mode": 1}), (SCALE, 1.0, ALL, ALL, 4, "BNSD", 2, 1)),
        (Call(attributes={"sparse_mode": 2}), (SCALE, 1.0, ALL, 0, 4, "BNSD", 0, 2)),
        (Call(attributes={"sparse_mode": 3}), (SCALE, 1.0, ALL, 0, 4, "BNSD", 0, 3)),
        (
            Call({"query": (3, 4, 1, 8), "atten_mask": (1, 7)}),  # rows of one query need no care
            (SCALE, 1.0, ALL, ALL, 4, "BNSD", 0, 0),
        ),
    ],
)
def test_devices_get_all_numbers_of_their_operators(call: Call, numbers: tuple[Any, ...]) -> None:
    passes = OPERATORS[call.operator].passes
    biased = OPERATORS[f"{call.operator}_v2"].passes
    assert passes is not None
    assert biased is not None
    assert tuple(passes(call.arguments, A2)) == ((), *numbers)
    assert tuple(biased(call.arguments, A2)) == ((), (), (), *numbers, 0)


@pytest.mark.parametrize(
    ("operator", "taken"),
    [
        (FORWARD, "query key value - - - atten_mask"),
        (f"{FORWARD}_v2", "query key value real_shift - - atten_mask"),
        (GRADIENT, "query key_in value dy - - - atten_mask softmax_max softmax_sum - attention_in"),
        (BIASED, "query key_in value dy pse_shift - - atten_mask softmax_max softmax_sum - attention_in"),
    ],
)
def test_devices_get_null_for_what_is_not_served(operator: str, taken: str) -> None:
    spec = OPERATORS[operator]
    assert [each.name or "-" for each in spec.taken_of({})] == taken.split()


def test_one_triangle_stands_in_for_every_causal_mask() -> None:
    spec = OPERATORS[GRADIENT].input("atten_mask")
    constants = [spec.stands_in(Call(attributes={"sparse_mode": mode}).arguments) for mode in range(4)]
    assert constants[:2] == [None, None]
    assert constants[2] is constants[3] is not None
    triangle = np.frombuffer(constants[2].data(), np.bool_).reshape(constants[2].type.shape)
    np.testing.assert_array_equal(triangle, ~(np.tri(2048) > 0))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_hold_the_same_heads(layout: str) -> None:
    heads = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    array = laid_out(heads, layout)
    np.testing.assert_array_equal(heads_of(array, layout, 3), heads)
    second = {"BNSD": heads[0, 1, 0], "BSND": heads[0, 0, 1], "BSH": heads[0, 0, 1], "SBH": heads[1, 0, 0]}[layout]
    np.testing.assert_array_equal(array[0, 1].ravel()[:5], second)


def test_statistics_may_be_the_logarithm_that_pytorch_saves() -> None:
    """(maximum, sum) and (logarithm of the sum, 1) are the same probabilities; of a row without a key both give 0."""
    for mask in ("", "ST"):
        case = attention_case("masked_row", "BNSD", 2, 4, 9, 11, 8, shared=2, mask=mask, operator=GRADIENT)
        arrays = TypedCase(OPERATORS[GRADIENT], case, "float32").arrays()
        most, sums = (arrays[name].astype(np.float64)[..., 0] for name in ("softmax_max", "softmax_sum"))
        saved = np.where(most == LOWEST, 0.0, most + np.log(sums))
        assert (saved == 0).any() == bool(mask)
        both = [
            reference.define(GRADIENT, arrays, {}),
            reference.define(GRADIENT, arrays | {"softmax_max": saved, "softmax_sum": np.ones(saved.shape)}, {}),
        ]
        for one, other in zip(*both, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-13)


def test_wrong_statistics_give_wrong_gradients() -> None:
    """They are not made anew, so a call with those of another one shows."""
    case = attention_case("heads", "BNSD", 1, 1, 4, 4, 8, operator=GRADIENT)
    arrays = TypedCase(OPERATORS[GRADIENT], case, "float32").arrays()
    right = reference.define(GRADIENT, arrays, {})
    wrong = reference.define(GRADIENT, arrays | {"softmax_sum": arrays["softmax_sum"] * 2}, {})
    for one, other in zip(right, wrong, strict=True):
        np.testing.assert_allclose(other, one / 2, rtol=1e-12, atol=1e-15)
