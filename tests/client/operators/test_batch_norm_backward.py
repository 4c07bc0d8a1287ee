"""What batch_norm_backward needs in each mode, and what its devices would not check or get wrong."""

from typing import Any

import numpy as np
import pytest

from aclgrad.operators.batch_norm_backward.spec import SPEC
from aclgrad.operators.spec import Arguments
from aclgrad.operators.values import VarianceRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

A2, P950 = Product.ATLAS_A2, Product.ASCEND_950
BATCH, RUNNING = ("save_mean", "save_invstd"), ("running_mean", "running_var")
SHAPE = (4, 3, 5)


def tensor(shape: tuple[int, ...], dtype: str = "float32") -> TensorType:
    return TensorType(DTYPES[dtype], shape)


def arguments(*names: str, training: bool = True, eps: float = 1e-5, **changes: TensorType) -> Arguments:
    inputs = {"grad_output": tensor(SHAPE), "input": tensor(SHAPE), **dict.fromkeys(names, tensor((3,))), **changes}
    return Arguments(inputs, {"training": training, "eps": eps})


def fields(given: Arguments) -> list[str]:
    return [each.field for each in SPEC.check(given, A2)]


@pytest.mark.parametrize(
    ("training", "names", "missing"),
    [
        (True, (), [f"inputs[{name}]" for name in BATCH]),
        (True, RUNNING, [f"inputs[{name}]" for name in BATCH]),
        (True, ("save_mean",), ["inputs[save_invstd]"]),
        (True, BATCH, []),
        (True, (*BATCH, *RUNNING), []),
        (False, (), [f"inputs[{name}]" for name in RUNNING]),
        (False, BATCH, [f"inputs[{name}]" for name in RUNNING]),
        (False, ("running_var",), ["inputs[running_mean]"]),
        (False, RUNNING, []),
        (False, (*BATCH, *RUNNING), []),
    ],
)
def test_the_statistics_that_the_mode_uses_are_needed(
    training: bool, names: tuple[str, ...], missing: list[str]
) -> None:
    """A device would take zeros and ones in their place."""
    assert fields(arguments(*names, training=training)) == missing


@pytest.mark.parametrize("name", ["weight", *BATCH, *RUNNING])
@pytest.mark.parametrize("length", [0, 1, 2, 4])
@pytest.mark.parametrize("training", [True, False])
def test_every_given_length_is_that_of_the_channels(name: str, length: int, training: bool) -> None:
    """Also where the mode ignores the values: most devices do not compare these of the batch."""
    given = arguments(*BATCH, *RUNNING, training=training, **{name: tensor((length,))})
    assert fields(given) == [f"inputs[{name}].shape"]


def test_the_input_has_the_shape_and_dtype_of_the_gradient() -> None:
    assert fields(arguments(*BATCH, input=tensor((4, 3, 6)))) == ["inputs[input].shape"]
    assert fields(arguments(*BATCH, input=tensor(SHAPE, "float16"))) == ["inputs[input].data_type"]


def test_parameters_are_float32_or_of_the_input() -> None:
    half: Any = {"grad_output": tensor(SHAPE, "float16"), "input": tensor(SHAPE, "float16")}
    for dtype in ("float32", "float16"):
        assert fields(arguments(*BATCH, **half, weight=tensor((3,), dtype))) == []
    assert fields(arguments(*BATCH, **half, weight=tensor((3,), "bfloat16"))) == ["inputs[weight].data_type"]
    assert fields(arguments(*BATCH, weight=tensor((3,), "float16"))) == ["inputs[weight].data_type"]


def test_running_statistics_have_one_dtype() -> None:
    """The 950 refuses two."""
    half: Any = {"grad_output": tensor(SHAPE, "float16"), "input": tensor(SHAPE, "float16")}
    given = arguments("running_var", **half, running_mean=tensor((3,), "float16"), training=False)
    assert fields(given) == ["inputs[running_var].data_type"]


def test_the_950_takes_no_weight_of_16_bits() -> None:
    """It would round grad_weight to that dtype."""
    weight = next(each for each in SPEC.inputs if each.name == "weight")
    assert weight.dtypes[P950] == ("float32",)
    assert "float16" in weight.dtypes[A2]


@pytest.mark.parametrize("eps", [0.0, -0.0, -1e-5, np.nan, np.inf, -np.inf, 1e-46, 1e-40, 1e39])
def test_an_eps_that_float32_has_not_is_refused(eps: float) -> None:
    spec = next(each for each in SPEC.attributes if each.name == "eps")
    assert [each.field for each in spec.check(float(eps))] == ["attributes[eps]"]


def test_only_the_950_reads_the_reciprocal() -> None:
    """All others read the variance in its place."""
    save_invstd = next(each for each in SPEC.inputs if each.name == "save_invstd")
    eps = float(np.float32(1e-5))
    for product in SPEC.products:
        rule = VarianceRule(eps, is_converted=product is not P950, tolerance=1e-4)
        assert save_invstd.values(arguments(*BATCH), product) == rule
        assert save_invstd.values(arguments(*BATCH, *RUNNING, training=False), product) is None
