"""What calls of attention must keep to, because devices compute something else, or read beyond a tensor."""

from collections.abc import Callable, Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.families.attention.layouts import Shape, Sizes, is_flat, shape_of
from aclgrad.operators.rules import first_problem, same_dtype
from aclgrad.operators.spec import Arguments
from aclgrad.products import Product

_MOST_BATCH: Final = 2 * 2**20
_MOST_HEADS: Final = 2048
_MOST_POSITIONS: Final = 2**20
_MOST_HEAD_SIZE: Final = 768
_LANES: Final = 8


def sizes_of(arguments: Arguments) -> Sizes:
    """Returns the sizes of a legal call."""
    return Sizes.of(arguments, _key_of(arguments))


def checked(key: str, *biases: str) -> Callable[[Arguments, Product], Iterator[Violation]]:
    """Returns the check of an operator whose keys and biases have these names."""

    def check(arguments: Arguments, product: Product) -> Iterator[Violation]:
        given = [each for each in (key, "value", "dy", *biases, "attention_in") if each in arguments.inputs]
        yield from first_problem(
            same_dtype(arguments, "query", *given),
            _check_ranks(arguments, key),
            _check_heads(arguments, key),
            _check_sizes(arguments, key),
            _check_limits(arguments, key),
            _check_results(arguments, key),
        )
        if _has_sizes(arguments, key):
            yield from _check_mask(arguments, key)
            yield from _check_bias(arguments, key, *biases)

    return check


def _key_of(arguments: Arguments) -> str:
    return "key" if "key" in arguments.inputs else "key_in"


def _layout(arguments: Arguments) -> str:
    return str(arguments.attributes["input_layout"])


def _check_ranks(arguments: Arguments, key: str) -> Iterator[Violation]:
    layout = _layout(arguments)
    for name in ("query", key, "value", "dy", "attention_in"):
        if name in arguments.inputs and (rank := arguments.inputs[name].rank) != len(layout):
            problem = f"has {rank} dimensions, and the layout {layout} has {len(layout)}"
            yield Violation(f"inputs[{name}].shape", problem, f"send {len(layout)} sizes, or another input_layout")


def _check_heads(arguments: Arguments, key: str) -> Iterator[Violation]:
    """The last axis has whole heads."""
    layout, heads = _layout(arguments), arguments.attributes["head_num"]
    query, keys, value = (arguments.inputs[name].shape for name in ("query", key, "value"))
    if not is_flat(layout):
        own = query[layout.index("N")]
        if heads is not None and heads != own:
            problem = f"is {heads}, and inputs[query] of the layout {layout} has {own} heads"
            yield Violation("attributes[head_num]", problem, f"send {own}, or leave it out")
        return
    if heads is None:
        problem = f"is missing, and the layout {layout} does not show how many heads there are"
        yield Violation("attributes[head_num]", problem, "send the number of the query's heads")
    elif query[2] % int(str(heads)) or not query[2]:
        problem = f"is {query}, whose last size {heads} heads do not divide"
        yield Violation("inputs[query].shape", problem, "send a multiple of head_num as the last size")
    elif keys[2] % (size := query[2] // int(str(heads))) or not keys[2]:
        problem = f"is {keys}, whose last size heads of {size} elements do not divide"
        yield Violation(f"inputs[{key}].shape", problem, f"send a multiple of {size} as the last size")
    elif value[2] % (count := keys[2] // size) or not value[2]:
        problem = f"is {value}, whose last size the {count} heads of inputs[{key}] do not divide"
        yield Violation("inputs[value].shape", problem, f"send a multiple of {count} as the last size")


def _check_sizes(arguments: Arguments, key: str) -> Iterator[Violation]:
    """Tensors differ where they may alone."""
    layout, sizes = _layout(arguments), Sizes.of(arguments, key)
    query, keys, value = (arguments.inputs[name].shape for name in ("query", key, "value"))
    batch = layout.index("B")
    if keys[batch] != query[batch]:
        problem = f"is {keys}, with {keys[batch]} sequences, and inputs[query] has {query[batch]}"
        yield Violation(f"inputs[{key}].shape", problem, "send equal batches")
    elif value[:-1] != keys[:-1]:
        problem = f"is {value}, and inputs[{key}] is {keys}"
        yield Violation("inputs[value].shape", problem, "send equal sizes but for the last one")
    elif not is_flat(layout) and keys[3] != query[3]:
        problem = f"is {keys}, and heads of inputs[query] have {query[3]} elements"
        yield Violation(f"inputs[{key}].shape", problem, f"send {query[3]} as the last size")
    elif sizes.value_size > sizes.head_size:
        problem = f"is {value}, with heads of {sizes.value_size} elements, and those of inputs[{key}] have fewer"
        remedy = f"send heads of at most {sizes.head_size}, or pad query and {key} with zeros and send scale_value"
        yield Violation("inputs[value].shape", problem, remedy)
    elif sizes.kv_heads == 0 or sizes.heads % sizes.kv_heads or (sizes.heads == 0):
        problem = f"is {keys}, with {sizes.kv_heads} heads, which do not divide the {sizes.heads} of inputs[query]"
        yield Violation(f"inputs[{key}].shape", problem, "send a divisor of the query's heads, at least 1")


def _check_limits(arguments: Arguments, key: str) -> Iterator[Violation]:
    """The sizes are those that CANN documents."""
    sizes = Sizes.of(arguments, key)
    if sizes.head_size == 0 or sizes.value_size == 0:
        name = "query" if sizes.head_size == 0 else "value"
        problem = f"is {arguments.inputs[name].shape}, with heads of 0 elements"
        yield Violation(f"inputs[{name}].shape", problem, "send heads of at least 1")
    for name, what, size, most in (
        ("query", "elements in a head", sizes.head_size, _MOST_HEAD_SIZE),
        ("query", "heads", sizes.heads, _MOST_HEADS),
        ("query", "sequences", sizes.batch, _MOST_BATCH),
        ("query", "positions", sizes.queries, _MOST_POSITIONS),
        (key, "positions", sizes.keys, _MOST_POSITIONS),
    ):
        if size > most:
            problem = f"is {arguments.inputs[name].shape}, with {size} {what}"
            yield Violation(f"inputs[{name}].shape", problem, f"send at most {most}, or split the call")


def _check_results(arguments: Arguments, key: str) -> Iterator[Violation]:
    """What the forward pass returned fits its inputs."""
    sizes = Sizes.of(arguments, key)
    shape = shape_of((sizes.batch, sizes.heads, sizes.queries, sizes.value_size), _layout(arguments))
    rows = (sizes.batch, sizes.heads, sizes.queries)
    wanted: dict[str, tuple[Shape, ...]] = {"dy": (shape,), "attention_in": (shape,)}
    wanted |= dict.fromkeys(("softmax_max", "softmax_sum"), (rows, (*rows, _LANES)))
    for name, shapes in wanted.items():
        if name in arguments.inputs and (own := arguments.inputs[name].shape) not in shapes:
            problem = f"is {own}, and the call has {sizes.heads} heads of {sizes.queries} queries in {sizes.batch} "
            problem += f"sequences, and values of {sizes.value_size} elements"
            yield Violation(f"inputs[{name}].shape", problem, f"send {' or '.join(map(str, shapes))}")


def _has_sizes(arguments: Arguments, key: str) -> bool:
    layout = _layout(arguments)
    return all(arguments.inputs[name].rank == len(layout) for name in ("query", key, "value")) and (
        not is_flat(layout) or arguments.attributes["head_num"] is not None
    )


def _check_mask(arguments: Arguments, key: str) -> Iterator[Violation]:
    mask, mode = arguments.inputs.get("atten_mask"), arguments.int("sparse_mode")
    if mask is None:
        return
    if mode > 1:
        problem = f"is sent with sparse_mode {mode}, whose mask the server has"
        remedy = "leave it out, or send sparse_mode 1 and a mask that has both"
        yield Violation("inputs[atten_mask]", problem, remedy)
        return
    sizes = Sizes.of(arguments, key)
    rows = (sizes.queries, sizes.keys)
    shapes = ((sizes.batch, sizes.heads, *rows), (sizes.batch, 1, *rows), (1, 1, *rows), rows)
    yield from _one_of("atten_mask", mask.shape, shapes)


def _check_bias(arguments: Arguments, key: str, *biases: str) -> Iterator[Violation]:
    sizes = Sizes.of(arguments, key)
    heads, rows = sizes.heads, (sizes.queries, sizes.keys)
    shapes = ((sizes.batch, heads, *rows), (1, heads, *rows), (sizes.batch, heads, 1, sizes.keys))
    for name in biases:
        yield from _one_of(name, arguments.inputs[name].shape, shapes)


def _one_of(name: str, shape: Shape, shapes: tuple[Shape, ...]) -> Iterator[Violation]:
    if shape not in shapes:
        listed = " or ".join(map(str, dict.fromkeys(shapes)))
        problem = f"is {shape}, a shape that devices do not broadcast"
        yield Violation(f"inputs[{name}].shape", problem, f"send {listed}")
