"""The machinery of these tests takes operators that are unlike pooling: see tests/made_up.py."""

from collections.abc import Iterator

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase
from tests import made_up
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.prototypes import Prototype

from . import table_calls
from .phase_one import Tensor


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    name = f"{made_up.SPEC.symbol}GetWorkspaceSize"
    parameters = ("gradOutput", "self", "gradInput", "workspaceSize", "executor")
    declared = (*["aclTensor"] * 3, "uint64_t", "aclOpExecutor")
    monkeypatch.setitem(vars(table_calls)["_PROTOTYPES"], name, Prototype(name, int, (), parameters, declared))
    with made_up.registered():
        yield


def test_rows_have_the_ranks_that_they_are_named_after() -> None:
    rows = table_calls.rows_of(made_up.SPEC, PRODUCT)
    assert rows["no_columns float16"].arguments["self"].shape == (3, 0)
    for rank in (0, 3):
        assert {len(each.shape) for each in rows[f"rank {rank}"].arguments.values() if isinstance(each, Tensor)} == {
            rank
        }


@pytest.mark.parametrize("typed", made_up.CASES, ids=str)
def test_a_gradient_may_be_as_far_from_the_definition_as_it_is_rounded(typed: TypedCase) -> None:
    """Where the weighted mean is near, |grad_output| cancels and the gradient does not."""
    arrays = typed.arrays()
    if arrays["grad_output"].size:
        mean = (np.abs(arrays["grad_output"]) * made_up.forward(arrays["grad_output"], arrays["self"])).sum(-1)
        arrays["grad_output"][..., 0] = -mean
    gradient = made_up.backward(arrays["grad_output"], arrays["self"])
    kind = arrays["grad_output"].dtype
    assert_defined(typed, gradient.astype(kind), PRODUCT, arrays)
    if gradient.size:
        with pytest.raises(AssertionError):
            assert_defined(typed, (gradient * 1.01).astype(kind), PRODUCT, arrays)
