"""An operator returns gradients or values: everything that derives from the table takes both."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import aclgrad
from aclgrad import reference
from aclgrad.commands import operators as command
from aclgrad.commands import program
from aclgrad.descriptions.operators import operators_of
from aclgrad.errors import InvalidFieldError
from aclgrad.judge.check import target as check_target
from aclgrad.judge.check.gradients import accuracy, fills
from aclgrad.judge.check.target import Selection, Target
from aclgrad.judge.findings.rows import Origin, Verdict
from aclgrad.operators import cases, validation
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.describe import describe_operator
from aclgrad.operators.spec import Arguments, OperatorKind
from aclgrad.operators.validation import check_call, find_operator
from aclgrad.products import Product
from aclgrad.tensors import view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall
from tests.made_up_value import NAME, SAMPLES, SPEC, registered

A2 = Product.ATLAS_A2
GRADIENTS = ("grad_output", "dy")
"""The names of the gradient of the output; CANN's operators of transformers have the second one."""
INDICES, TABLE = np.array([2, 0, 2]), np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registered(cases, validation, command, check_target):
        yield


def call(**arrays: Any) -> OperatorCall:
    return OperatorCall(NAME, tuple(view_of_array(name, each) for name, each in arrays.items()), {})


def test_gradients_take_the_gradient_of_the_output_and_have_it_in_their_names() -> None:
    for name, spec in OPERATORS.items():
        is_gradient = not {"backward", "grad"}.isdisjoint(name.split("_"))
        assert (spec.kind is OperatorKind.GRADIENT) == is_gradient == (spec.leading in GRADIENTS), name


def test_the_leading_input_gives_the_dtypes() -> None:
    assert SPEC.leading_input is SPEC.inputs[1]
    assert (SPEC.dtypes, SPEC.dtypes_on(A2)) == (("float32", "float16"),) * 2
    assert SPEC.dtypes_on(Product.ASCEND_950) == ()
    for wrong in ("nothing", "table"):
        inputs = (SPEC.inputs[0], replace(SPEC.inputs[1], is_optional=True))
        with pytest.raises(ValueError, match=f"the leading input {wrong} is missing or optional"):
            replace(SPEC, leading=wrong, inputs=inputs)


def test_a_call_is_checked() -> None:
    spec = find_operator(NAME, A2)
    assert check_call(call(indices=INDICES, table=TABLE), spec, A2) == Arguments(
        {"indices": view_of_array("indices", INDICES).type, "table": view_of_array("table", TABLE).type}, {}
    )
    with pytest.raises(InvalidFieldError, match=r"inputs\[table\].data_type is float64; send float32 or float16"):
        check_call(call(indices=INDICES, table=TABLE.astype(np.float64)), spec, A2)


def test_the_definition_is_called_value() -> None:
    assert reference.define(NAME, {"indices": INDICES, "table": TABLE}, {}).tolist() == TABLE[[2, 0, 2]].tolist()


def test_the_description_says_what_is_returned_and_what_leads() -> None:
    message = pb.ListOperatorsResponse(operators=[describe_operator(SPEC, A2, dtypes=("float16",))])
    (described,) = operators_of(message)
    assert (described.kind, described.leading) == (OperatorKind.VALUE, "table")
    assert {each.name: [str(dtype) for dtype in each.dtypes] for each in described.inputs} == {
        "indices": ["int64"],
        "table": ["float16"],
    }


def run(*arguments: str) -> str:
    return CliRunner().invoke(program, arguments, env={"ACLGRAD_TARGET": "", "COLUMNS": "100"}).output


def test_the_listing_has_the_kind() -> None:
    (row,) = (line for line in run("operators").splitlines() if NAME in line)
    assert row.split() == [NAME, "910B", "float16,", "float32", "2", "value"]
    assert "    Looks up rows.\n    kind: value\n" in run("operators", NAME)


class Server:
    """Computes by the definition, in the leading dtype; `wrong` is added to the first value."""

    def __init__(self, wrong: float = 0.0) -> None:
        self.wrong = wrong

    def execute(self, name: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        found = reference.define(name, inputs, attributes).astype(inputs[SPEC.leading].dtype)
        found.flat[:1] += self.wrong
        return found


@pytest.mark.parametrize(("wrong", "verdicts"), [(0.0, {Verdict.PASSED}), (1.0, {Verdict.PASSED, Verdict.FAILED})])
def test_a_check_judges_values_and_looks_for_no_untouched_ones(wrong: float, verdicts: set[Verdict]) -> None:
    (described,) = operators_of(pb.ListOperatorsResponse(operators=[describe_operator(SPEC, A2)]))
    origin, client = Origin("here", "", "", ""), Server(wrong)
    status: Any = SimpleNamespace(turned_off_operators=())
    target = Target(origin, A2, status, {NAME: described}, client, client)  # type: ignore[arg-type]
    assert target.missing_dtypes(NAME) == []
    selection = Selection(target, is_quick=False)
    found = {task.case: task.judge() for task in accuracy(selection)}
    assert {each.verdict for each in found.values()} == verdicts
    assert found.keys() == {"few", "often", "none", "6 MB"}
    assert found["none"].verdict is Verdict.PASSED
    assert list(fills(selection)) == []


def test_samples_are_drawn_with_the_leading_dtype() -> None:
    typed = cases.TypedCase(SPEC, SAMPLES.cases[0], "float16")
    assert {name: str(each.dtype) for name, each in typed.arrays().items()} == {"indices": "int64", "table": "float16"}
    assert cases.served_dtypes(SPEC, SAMPLES.cases[0], A2) == ["float32", "float16"]


def test_the_kind_is_public() -> None:
    assert aclgrad.OperatorKind is OperatorKind
