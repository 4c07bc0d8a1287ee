"""The rows of the operator table that are gradients of elementwise functions."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.rules import equal_sizes, same_dtype
from aclgrad.operators.spec import Arguments, AttributeSpec, InputSpec, OperatorSpec, OutputSpec, Tolerance
from aclgrad.operators.tolerance import by_dtype
from aclgrad.products import Product

RANKS: Final = tuple(range(9))
_WITH_BFLOAT16: Final = (Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)
_TOLERANCES: Final = {
    "float32": Tolerance(relative=4e-6, absolute=1e-6),
    "complex64": Tolerance(relative=4e-6, absolute=1e-6),
    "float16": Tolerance(relative=1e-3, absolute=1e-5),
    "bfloat16": Tolerance(relative=8e-3, absolute=1e-5),
    "float64": Tolerance(relative=1e-13, absolute=1e-13),
    "complex128": Tolerance(relative=1e-13, absolute=1e-13),
}

Check = Callable[[Arguments, Product], Iterator[Violation]]


def floats(*more: str, without: tuple[Product, ...] = ()) -> dict[Product, tuple[str, ...]]:
    """Returns the products and their dtypes: float32, float16, bfloat16 where there is one, and those of `more`."""
    products = (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE, *_WITH_BFLOAT16)
    halves = {each: ("float16", "bfloat16") if each in _WITH_BFLOAT16 else ("float16",) for each in products}
    return {each: ("float32", *halves[each], *more) for each in products if each not in without}


def tolerances_of(dtypes: Mapping[Product, tuple[str, ...]]) -> dict[str, Tolerance]:
    """Returns the tolerance of each dtype."""
    return {each: _TOLERANCES[each] for each in dict.fromkeys(sum(dtypes.values(), ()))}


def elementwise_spec(
    name: str,
    summary: str,
    formula: str,
    dtypes: Mapping[Product, tuple[str, ...]],
    *,
    saved: str = "self",
    output: str = "grad_input",
    attributes: tuple[AttributeSpec, ...] = (),
    check: Check = lambda *_: iter(()),
) -> OperatorSpec:
    """Returns the row of an operator that takes `saved`: `self`, or `output`, the function's own result.

    All tensors have the same shape and dtype. CANN broadcasts for some operators, and then the result is not the
    gradient of `self` but what would have to be summed for it.
    """
    saving = {
        "self": "The tensor that the function was applied to.",
        "output": "What the function returned.",
    }

    def checked(arguments: Arguments, product: Product) -> Iterator[Violation]:
        yield from same_dtype(arguments, saved, "grad_output")
        shapes = {each: arguments.inputs[each].shape for each in (saved, "grad_output")}
        field = "inputs[grad_output].shape"
        yield from equal_sizes(field, shapes["grad_output"], f"inputs[{saved}].shape", shapes[saved])
        yield from check(arguments, product)

    return OperatorSpec(
        name=name,
        symbol=f"aclnn{''.join(map(str.capitalize, name.split('_')))}",
        summary=summary,
        formula=formula,
        inputs=(
            InputSpec(
                "grad_output", f"The gradient of the result, with the shape and dtype of {saved}.", dtypes, RANKS
            ),
            InputSpec(saved, f"{saving[saved]} Any shape.", dtypes, RANKS),
        ),
        attributes=attributes,
        outputs=(
            OutputSpec(
                output,
                f"The gradient of {'self' if saved == 'self' else 'the input'}, with the shape and dtype of {saved}.",
                lambda arguments: arguments.inputs[saved],
                of="self" if saved == "self" else "input",
            ),
        ),
        check=checked,
        tolerance=by_dtype(tolerances_of(dtypes)),
        is_spatial=False,
    )
