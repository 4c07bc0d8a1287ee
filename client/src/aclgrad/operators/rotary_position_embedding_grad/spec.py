"""aclnnRotaryPositionEmbeddingGrad: the gradients of the rotary position embedding.

CANN generates this operator, from release 8.5 on. A2 and A3 tell the layout of dy by the axes along which cos has a
size of 1. Their documents limit batch and heads, which no device checks. The modes 2 and 3 exist on the 950 alone.
"""

from collections.abc import Callable, Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import floats, tolerances_of
from aclgrad.operators.rules import broadcasts, equal_sizes, first_problem, same_dtype
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec, InputSpec, OperatorSpec, OutputSpec
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.products import Product
from aclgrad.tensors import TensorType

Shape = tuple[int, ...]
_DTYPES: Final = floats(without=(Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE))
_RANKS: Final = (4,)
_SUMS: Final = ("dcos", "dsin")
HALF, INTERLEAVE = 0, 1
MOST_COLUMNS: Final = {Product.ATLAS_A2: 896, Product.ATLAS_A3: 896, Product.ASCEND_950: 1024}
"""Of the last axis."""
MOST_OF_AN_AXIS: Final = 999
"""Of batch and heads, on A2 and A3; of their product in mode 1."""
MOST_SHARING: Final = 1024
"""Of batch times heads in mode 0, on A2 and A3, if cos and sin have gradients."""


def batch_and_heads(dy: Shape, cos: Shape, mode: int) -> tuple[int, int] | None:
    """Returns the sizes of both as A2 and A3 find them, or None if they refuse such a cos."""
    a, b, c, _ = dy
    of_one: dict[Shape, tuple[int, int]] = {(1, b, 1): (a, c), (1, 1, c): (a, b), (a, 1, 1): (b, c)}
    if mode == INTERLEAVE:
        return of_one.get(cos[:3])
    layouts = (
        (True, (a, b, c), (a, c)),
        (a != 1, (1, b, 1), (a, c)),
        (a < b, (a, b, 1), (a, c)),
        (a != 1, (1, 1, c), (a, b)),
        (a < c, (a, 1, c), (a, b)),
        (b != 1, (a, 1, 1), (b, c)),
        (True, (a, b, 1), (b, c)),
    )
    return next((sizes for is_taken, shared, sizes in layouts if is_taken and cos[:3] == shared), None)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    given = [name for name in ("cos", "sin", "x") if name in arguments.inputs]
    yield from same_dtype(arguments, "dy", *given)
    yield from first_problem(
        _check_outputs(arguments), _check_shapes(arguments, product), _check_layout(arguments, product)
    )


def _check_outputs(arguments: Arguments) -> Iterator[Violation]:
    if "x" not in arguments.inputs:
        for name in filter(arguments.wants, _SUMS):
            yield Violation(f"outputs[{name}]", "depends on inputs[x], which is missing", "send x, or ask for dx alone")


def _check_shapes(arguments: Arguments, product: Product) -> Iterator[Violation]:
    shapes = {name: type.shape for name, type in arguments.inputs.items()}
    dy, cos, most = shapes["dy"], shapes["cos"], MOST_COLUMNS[product]
    yield from equal_sizes("inputs[sin].shape", shapes["sin"], "inputs[cos].shape", cos)
    if "x" in shapes:
        yield from equal_sizes("inputs[x].shape", shapes["x"], "inputs[dy].shape", dy)
    if dy[3] % 2 or dy[3] > most:
        yield Violation("inputs[dy].shape", f"is {dy}", f"send an even last size up to {most}")
    if cos[3] != dy[3]:
        yield Violation("inputs[cos].shape", f"is {cos}, and inputs[dy] has the shape {dy}", f"send {dy[3]} at last")


def _check_layout(arguments: Arguments, product: Product) -> Iterator[Violation]:
    dy, cos, mode = arguments.inputs["dy"].shape, arguments.inputs["cos"].shape, arguments.int("mode")
    problem = f"is {cos}, and inputs[dy] has the shape {dy}"
    if product is Product.ASCEND_950:
        if not broadcasts(cos, dy):
            yield Violation("inputs[cos].shape", problem, "send sizes of dy, and 1 along axes that share values")
        return
    sizes = batch_and_heads(dy, cos, mode)
    if sizes is None:
        whole = (
            "" if mode == INTERLEAVE else ", one of these with its batch, which comes before S and is smaller, or dy's"
        )
        remedy = f"send (1, 1, S, D), (1, S, 1, D) or (S, 1, 1, D){whole}"
        yield Violation("inputs[cos].shape", problem, remedy)
        return
    batch, heads = sizes
    if mode == INTERLEAVE:
        if batch * heads > MOST_OF_AN_AXIS:
            yield _too_many(dy, f"batch {batch} times heads {heads}", MOST_OF_AN_AXIS)
    elif max(sizes) > MOST_OF_AN_AXIS:
        yield _too_many(dy, f"batch {batch} and heads {heads}", MOST_OF_AN_AXIS)
    elif "x" in arguments.inputs and batch * heads > MOST_SHARING:
        yield _too_many(dy, f"batch {batch} times heads {heads}, with x,", MOST_SHARING)


def _too_many(dy: Shape, what: str, most: int) -> Violation:
    problem = f"is {dy}: {what}; this product takes up to {most}"
    return Violation("inputs[dy].shape", problem, "divide the batch or the heads into several calls")


def _sharing(arguments: Arguments) -> float:
    """Returns how many rows of dy share one of cos."""
    return arguments.inputs["dy"].element_count / max(arguments.inputs["cos"].element_count, 1)


def _batch_axes(arguments: Arguments) -> BatchAxes | None:
    """Along the first axis, calls share cos and sin if all have one there, and A2 still finds the layout."""
    dy, cos = arguments.inputs["dy"].shape, arguments.inputs["cos"].shape
    is_shared = cos[0] == 1 and 1 in cos[1:3] and (cos[1:3] != (1, 1) or 1 in dy[1:3])
    if is_shared:
        return BatchAxes(others=dict.fromkeys(("cos", "sin", *_SUMS)))
    return BatchAxes() if cos == dy or cos[1:3] == (1, 1) else None


def _type_of(name: str) -> Callable[[Arguments], TensorType]:
    return lambda arguments: arguments.inputs[name]


SPEC = OperatorSpec(
    name="rotary_position_embedding_grad",
    symbol="aclnnRotaryPositionEmbeddingGrad",
    summary="Gives the gradients of the rotary position embedding: of x and, if x is given, of cos and sin.",
    formula=(
        "With y = x * cos + rotate(x) * sin, where rotate makes (-x2, x1) of the halves (x1, x2) of the last axis, or "
        "of each even element and the next one: dx = (cos1 * dy1 + sin2 * dy2, cos2 * dy2 - sin1 * dy1); dcos is the "
        "sum of dy * x, and dsin that of dy * rotate(x), over the axes that share a row of cos (torch_npu: "
        "npu_rotary_mul_backward)."
    ),
    inputs=(
        InputSpec("dy", "The gradient of y: (B, N, S, D), (B, S, N, D) or (S, B, N, D).", _DTYPES, _RANKS),
        InputSpec(
            "cos", "The cosines, shaped as dy with 1 along the axes that share them, of its dtype.", _DTYPES, _RANKS
        ),
        InputSpec("sin", "The sines, with the shape and dtype of cos.", _DTYPES, _RANKS),
        InputSpec(
            "x",
            "The tensor that was rotated, with the shape and dtype of dy. Left out: there is only dx, which has to be "
            "asked for alone.",
            _DTYPES,
            _RANKS,
            is_optional=True,
        ),
    ),
    attributes=(
        AttributeSpec(
            "mode",
            "What rotates together: 0 the halves of the last axis, 1 each even element and the next one.",
            AttributeKind.INT,
            default=HALF,
            minimum=HALF,
            maximum=INTERLEAVE,
        ),
    ),
    outputs=(
        OutputSpec("dx", "The gradient of x, with the shape and dtype of dy.", _type_of("dy"), of="x"),
        OutputSpec("dcos", "The gradient of cos, with its shape and dtype.", _type_of("cos"), of="cos"),
        OutputSpec("dsin", "The gradient of sin, with its shape and dtype.", _type_of("sin"), of="sin"),
    ),
    check=_check,
    tolerance=summed(by_dtype(tolerances_of(_DTYPES)), _sharing, *_SUMS),
    is_spatial=False,
    batch_axes=_batch_axes,
)
