"""What a product has no kernel for, or would answer wrongly, is refused there and nowhere else."""

from dataclasses import dataclass, field

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.rules import same_dtype, same_leading_sizes
from aclgrad.operators.spec import Arguments
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.wire.values import AttributeValue

A2, P950, P310, P910A = Product.ATLAS_A2, Product.ASCEND_950, Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING
WINDOWS: dict[str, AttributeValue] = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}


@dataclass(frozen=True)
class Call:
    """One call by its shapes; indices are int32."""

    operator: str
    grad_output: tuple[int, ...]
    input: tuple[int, ...] | None
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    dtype: str = "float32"

    def violations(self, product: Product) -> list[str]:
        spec, dtype = OPERATORS[self.operator], DTYPES[self.dtype]
        types = {
            each.name: TensorType(dtype, self.input if each.name == "self" and self.input else self.grad_output)
            for each in spec.inputs
        }
        if "indices" in types:
            types["indices"] = TensorType(DTYPES["int32"], self.grad_output)
        arguments = Arguments(types, {**spec.defaults, **self.attributes})
        return [each.field for each in spec.check(arguments, product)]


def upsample(output: int, input: int, scale: float, other: float = 0.0) -> Call:
    sizes: dict[str, AttributeValue] = {"output_size": (output, 4), "input_size": (1, 1, input, 4)}
    scales = {"scales_h": scale, "scales_w": other}
    return Call("upsample_nearest2d_backward", (1, 1, output, 4), None, {**sizes, **scales})


def pad(operator: str, padding: tuple[int, ...], dtype: str = "bfloat16") -> Call:
    both = [before + after for before, after in zip(padding[::2], padding[1::2], strict=True)][::-1]
    return Call(operator, (2, *(4000 + more for more in both)), (2, *[4000] * len(both)), {"padding": padding}, dtype)


def average(kernel: int, pooled: int, size: int, dtype: str = "float32", **attributes: AttributeValue) -> Call:
    given = {"kernel_size": (kernel,), **attributes}
    return Call("avg_pool2d_backward", (1, 1, pooled, pooled), (1, 1, size, size), given, dtype)


def adaptive(pooled: tuple[int, ...], dtype: str = "float32") -> Call:
    return Call("adaptive_avg_pool3d_backward", (2, 3, *pooled), (2, 3, 4, 6, 8), {}, dtype)


def leaky(slope: float, dtype: str = "float64", **attributes: AttributeValue) -> Call:
    return Call("leaky_relu_backward", (2,), (2,), {"negative_slope": slope, **attributes}, dtype)


def threshold(value: float) -> Call:
    return Call("threshold_backward", (2,), (2,), {"threshold": value})


REFUSED = {
    "a threshold that devices take for 0": (threshold(1e-7), A2, "attributes[threshold]"),
    "a threshold that is rounded to such a one": (threshold(2**-23 + 2**-50), A2, "attributes[threshold]"),
    "a slope for float64 that is no float32": (leaky(0.01), A2, "attributes[negative_slope]"),
    "a negative slope of a result": (leaky(-0.5, self_is_result=True), A2, "attributes[negative_slope]"),
    "another scale than that of the sizes": (upsample(4, 2, 2.3), A2, "attributes[scales_h]"),
    "a scale for which products round differently": (upsample(82, 2, 41.0), A2, "attributes[scales_h]"),
    "a scale of one axis, where products round the other differently": (
        upsample(82, 2, 0.0, 1.0), A2, "attributes[scales_h]",
    ),
    "a scale of a long axis": (upsample(2**17, 2**16, 2.0), A2, "attributes[scales_h]"),
    "bfloat16 cropped along a line": (pad("replication_pad1d_backward", (-1, 2)), A2, "attributes[padding]"),
    "bfloat16 reflected far": (pad("reflection_pad1d_backward", (3001, 0)), A2, "attributes[padding]"),
    "bfloat16 reflected by 8 rows": (pad("reflection_pad2d_backward", (0, 0, 8, 0)), A2, "attributes[padding]"),
    "one padded window over all of a plane": (
        average(12, 1, 12, padding=(3,), stride=(20,)), A2, "attributes[padding]",
    ),
    "one half of more cells than float16 counts": (
        average(256, 1, 256, "float16"), P950, "inputs[self].shape",
    ),
    "one such window that is computed in float16": (
        average(256, 1, 256, cube_math_type=2), A2, "inputs[self].shape",
    ),
    "more windows on a cell than are worth it": (average(600, 401, 1000, stride=(1,)), A2, "attributes[kernel_size]"),
    "float32 of a convolution": (average(3, 3, 9), P310, "attributes[cube_math_type]"),
    "HFLOAT32 of a convolution": (
        average(3, 3, 9, cube_math_type=3, dtype="float16"), P910A, "attributes[cube_math_type]",
    ),
    "a divisor that a convolution ignores": (
        average(3, 3, 9, "float16", divisor_override=255, count_include_pad=False),
        P310,
        "attributes[divisor_override]",
    ),
    "a divisor that a convolution has not": (
        average(3, 3, 9, "float16", divisor_override=-256), P310, "attributes[divisor_override]",
    ),
    "a convolved window beyond the padding": (
        average(3, 4, 10, "float16", ceil_mode=True), P910A, "attributes[ceil_mode]",
    ),
    "several windows on a product that has one": (adaptive((1, 2, 1)), P310, "inputs[grad_output].shape"),
    "several windows in float64": (adaptive((1, 2, 1), "float64"), A2, "inputs[grad_output].data_type"),
    "a dilation": (
        Call(
            "max_pool2d_with_indices_backward",
            (1, 1, 3, 3),
            (1, 1, 7, 7),
            {"kernel_size": (3,), "stride": (2,), "dilation": (2,), "padding": (1,)},
        ),
        A2,
        "attributes[dilation]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str) -> None:
    call, product, field_name = REFUSED[name]
    assert set(call.violations(product)) == {field_name}


TAKEN = {
    "a threshold of 0": (threshold(0.0), A2),
    "a threshold that is not taken for 0": (threshold(-1.3e-7), A2),
    "a slope for float64 that is a float32": (leaky(0.125), A2),
    "any slope for float32": (leaky(0.01, "float32"), A2),
    "a slope of 0 of a result": (leaky(0.0, self_is_result=True), A2),
    "the scale of the sizes": (upsample(8, 4, 2.0), A2),
    "no scale, where products would round differently": (upsample(82, 2, 0.0), A2),
    "float32 cropped along a line": (pad("replication_pad1d_backward", (-1, 2), "float32"), A2),
    "bfloat16 reflected as far as it may be": (pad("reflection_pad1d_backward", (3000, 0)), A2),
    "one window without padding": (average(12, 1, 12), A2),
    "one window of as many cells as float16 counts": (
        Call("avg_pool2d_backward", (1, 1, 1, 1), (1, 1, 178, 368), {"kernel_size": (178, 368)}, "float16"),
        A2,
    ),
    "one large window in float32": (average(256, 1, 256), A2),
    "one large half with a divisor": (average(256, 1, 256, "float16", divisor_override=255), A2),
    "one padded window with a divisor": (average(12, 1, 12, padding=(3,), stride=(20,), divisor_override=144), A2),
    "one padded window over a small plane": (average(8, 1, 8, padding=(3,), stride=(20,)), A2),
    "float32 elsewhere": (average(3, 3, 9), P950),
    "float32 of a convolution that may be less precise": (average(3, 3, 9, cube_math_type=1), P310),
    "a window beyond the padding elsewhere": (average(3, 4, 10, ceil_mode=True), A2),
    "one window in float64": (adaptive((1, 1, 1), "float64"), A2),
    "a dilation on the 950": (REFUSED["a dilation"][0], P950),
}


@pytest.mark.parametrize("name", TAKEN)
def test_it_is_taken(name: str) -> None:
    call, product = TAKEN[name]
    assert call.violations(product) == []


def arguments(**inputs: tuple[str, tuple[int, ...]]) -> Arguments:
    return Arguments({name: TensorType(DTYPES[dtype], shape) for name, (dtype, shape) in inputs.items()}, {})


def test_every_other_dtype_is_named() -> None:
    given = arguments(a=("float16", (1,)), b=("float32", (1,)), c=("float16", (1,)), d=("int8", (1,)))
    assert list(same_dtype(given, "a", "c")) == []
    first, second = same_dtype(given, "a", "b", "c", "d")
    assert second.field == "inputs[d].data_type"
    assert str(first) == "inputs[b].data_type is float32, but inputs[a] is float16; send it as float16"


@pytest.mark.parametrize(
    ("reference", "other", "told"),
    [
        ((2, 3, 5, 7), (2, 3, 1, 1), []),
        ((3, 5, 7), (3, 9, 9), []),
        ((5, 7), (1, 2), []),
        ((0, 3, 1, 1), (0, 3, 0, 0), []),
        ((2, 3, 5, 7), (2, 4, 1, 1), ["starts with (2, 4), but inputs[a] starts with (2, 3)"]),
        ((2, 3, 5, 7), (3, 5, 7), ["has 3 dimensions, but inputs[a] has 4"]),
    ],
    ids=str,
)
def test_leading_sizes_are_compared(reference: tuple[int, ...], other: tuple[int, ...], told: list[str]) -> None:
    given = arguments(a=("float32", reference), b=("float32", other))
    found = list(same_leading_sizes(given, "a", "b", trailing=2))
    assert [each.problem for each in found] == told
    assert {each.field for each in found} <= {"inputs[b].shape"}
