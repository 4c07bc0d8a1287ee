"""PyTorch's calls with the gradients of the sample cases, which acc_check runs instead of an operator."""

from collections.abc import Mapping
from dataclasses import dataclass

from aclgrad.judge.msprobe.arguments import OF_16_BITS, Argument, Arguments, Array, Given, Tensor
from aclgrad.judge.msprobe.functions import api_of_operator
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.samples import Arrays
from aclgrad.products import Product


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of PyTorch, and the gradient of its result. No tensor is an argument by keyword.

    `api` is msprobe's name for the function, such as Functional.pad.
    """

    api: str
    arguments: Arguments
    keywords: Mapping[str, Argument]
    grad_output: Array

    @property
    def tensors(self) -> list[Tensor]:
        """The arguments that are tensors: msprobe numbers gradients by their positions among these."""
        return [each for each in self.arguments if isinstance(each, Tensor)]


def api_of(typed: TypedCase) -> str:
    """Returns msprobe's name for the function whose gradient or value the operator computes."""
    return api_of_operator(typed.spec.name).name_of(typed)


def refusal(typed: TypedCase) -> str:
    """Returns why acc_check cannot check the case, or an empty text if it can."""
    read = (
        typed.arguments.inputs[each.name]
        for each in typed.spec.inputs
        if each.name in typed.arguments.inputs and each.unread_on != frozenset(Product)
    )
    if any(0 in each.shape for each in (*read, *typed.outputs.values())):
        return "acc_check compares no empty tensors."
    if "complex" in typed.dtype:
        return "acc_check compares no complex gradients."
    if "int" in typed.dtype:
        return "PyTorch has no gradients of integers."
    if typed.case.shapes.keys() == {"grad_output", "output"} and typed.dtype in ("float16", "bfloat16"):
        return OF_16_BITS
    api = api_of_operator(typed.spec.name)
    return api.refusal or api.refuses(typed)


def api_call(typed: TypedCase, arrays: Arrays) -> ApiCall:
    """Returns the call whose backward pass computes the case's gradient for these inputs, unless it is refused."""
    api = api_of_operator(typed.spec.name)
    given = Given(typed, arrays)
    return ApiCall(api.name_of(typed), api.arguments(given), api.keywords(given), api.grad_output(given))
