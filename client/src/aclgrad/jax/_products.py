"""Products of arrays by JAX's names and arguments, each as an `einsum` equation."""

from collections.abc import Mapping, Sequence
from string import ascii_letters
from typing import Any, Final

import numpy as np
from jax import Array
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.composites.subscripts import Subscripts
from aclgrad.errors import InvalidFieldError
from aclgrad.jax._checks import check_array, check_client, check_preferred, checked_dtype
from aclgrad.jax._contraction import contraction
from aclgrad.operators.catalogue import OPERATORS

Axes = Sequence[int]
Numbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
_DTYPES: Final = OPERATORS["batch_mat_mul"].dtypes


def matmul(a: Array, b: Array, *, precision: Any = None, preferred_element_type: Any = None, client: Client) -> Array:
    """Multiplies matrices, vectors, or batches of matrices that broadcast, as `jax.numpy.matmul`.

    One message has the gradients of both, and they have derivatives of any order. Takes float32, float16 and bfloat16,
    all in one dtype, which the product has. `precision` is that of the forward pass.
    """
    one, other = _ranks(a=a, b=b)
    _check_sizes({"a": a, "b": b}, [(one - 1, max(other - 2, 0))])
    rows, columns = "i" * (one > 1), "k" * (other > 1)
    equation = f"...{rows}j,...j{columns}->...{rows}{columns}"
    return _contracted(client, {"a": a, "b": b}, equation, precision, preferred_element_type)


def dot(a: Array, b: Array, *, precision: Any = None, preferred_element_type: Any = None, client: Client) -> Array:
    """Sums over the last axis of `a`, and the second to last or only one of `b`, as `jax.numpy.dot`. As `matmul`."""
    one, other = _ranks(a=a, b=b)
    numbers = ((one - 1,), (max(other - 2, 0),)), ((), ())
    return _paired(client, {"a": a, "b": b}, numbers, precision, preferred_element_type)


def tensordot(
    a: Array,
    b: Array,
    axes: int | Sequence[int] | Sequence[Axes] = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    client: Client,
) -> Array:
    """Sums over the last `axes` of `a` and the first of `b`, or over these of each, as `jax.numpy.tensordot`.

    As `matmul`.
    """
    one, _ = _ranks(a=a, b=b, least=0)
    try:
        if isinstance(axes, Sequence):
            left, right = ([each] if isinstance(each, int) else list(each) for each in axes)
        else:
            left, right = list(range(one - axes, one)), list(range(axes))
    except (TypeError, ValueError):
        raise InvalidFieldError.at("axes", f"is {axes!r}", "give a number, or the axes of a and of b") from None
    return _paired(client, {"a": a, "b": b}, ((left, right), ((), ())), precision, preferred_element_type)


def dot_general(
    lhs: Array,
    rhs: Array,
    dimension_numbers: Numbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    client: Client,
) -> Array:
    """Sums over axes of both, for each of the batch axes that both have, as `jax.lax.dot_general`.

    `dimension_numbers` is ((axes of lhs, of rhs), (batch axes of lhs, of rhs)). As `matmul`.
    """
    return _paired(client, {"lhs": lhs, "rhs": rhs}, dimension_numbers, precision, preferred_element_type)


def einsum(
    equation: str, *operands: Array, precision: Any = None, preferred_element_type: Any = None, client: Client
) -> Array:
    """Sums products of two or more operands by the equation, as `jax.numpy.einsum`. As `matmul`."""
    if not isinstance(equation, str):
        raise InvalidFieldError.at("equation", f"is a {type(equation).__name__}", "give a text, such as 'ij,jk->ik'")
    if len(operands) < 2:
        problem = f"is {equation!r} for {len(operands)} operands"
        raise InvalidFieldError.at("equation", problem, "give two or more, or call jax.numpy.einsum")
    given = {f"operands[{number}]": each for number, each in enumerate(operands)}
    return _contracted(client, given, equation, precision, preferred_element_type)


def _paired(client: Client, operands: Mapping[str, Any], numbers: Numbers, *how: Any) -> Array:
    """Returns the product with the batch axes first, then the remaining axes of both operands."""
    ranks = _ranks(**operands, least=0)
    try:
        (sums, batches) = ([[int(axis) for axis in axes] for axes in pair] for pair in numbers)
        pairs = [*zip(*batches, strict=True), *zip(*sums, strict=True)]
        pairs = [tuple(range(rank)[axis] for axis, rank in zip(pair, ranks, strict=True)) for pair in pairs]
        if any(len({pair[side] for pair in pairs}) < len(pairs) for side in range(2)):
            raise ValueError("an axis is named twice")
    except (TypeError, ValueError, IndexError):
        problem = f"is {numbers!r} for operands of {' and '.join(str(np.shape(each)) for each in operands.values())}"
        raise InvalidFieldError.at("dimension_numbers", problem, "give each axis once, and as many of both") from None
    _check_sizes(operands, pairs)
    letters = iter(ascii_letters)
    shared = [next(letters) for _ in pairs]
    terms = []
    for side, rank in enumerate(ranks):
        named = {pair[side]: letter for pair, letter in zip(pairs, shared, strict=True)}
        terms.append("".join(named.get(axis) or next(letters) for axis in range(rank)))
    free = "".join(letter for term in terms for letter in term if letter not in shared)
    equation = f"{','.join(terms)}->{''.join(shared[: len(batches[0])])}{free}"
    return _contracted(client, operands, equation, *how)


def _contracted(
    client: Client, operands: Mapping[str, Any], equation: str, precision: Any, preferred_element_type: Any
) -> Array:
    check_client(client)
    arrays = [checked_dtype(name, each, _DTYPES) for name, each in operands.items()]
    dtype = arrays[0].dtype
    for name, each in zip(operands, arrays, strict=True):
        if each.dtype != dtype:
            raise InvalidFieldError.at(name, f"is {each.dtype}, and another operand {dtype}", "give all in one dtype")
    check_preferred(preferred_element_type, dtype)
    subscripts = Subscripts.of(equation, [each.shape for each in arrays])
    labels = dict.fromkeys(label for term in subscripts.inputs for label in term)
    free = iter(sorted(set(ascii_letters) - labels.keys()))
    letters = {label: label if label in ascii_letters else next(free) for label in labels}
    output, *terms = ("".join(map(letters.__getitem__, each)) for each in (subscripts.output, *subscripts.inputs))
    plain = _plain(terms, arrays)
    name = next(iter(operands))
    return contraction(client, name, (output, *(term for term, _ in plain)), [each for _, each in plain], precision)


def _plain(terms: Sequence[str], arrays: Sequence[Array]) -> list[tuple[str, Array]]:
    """Returns each array with a term without repeated letters, and without broadcasting axes of one element."""
    pairs = [pair for term, array in zip(terms, arrays, strict=True) for pair in zip(term, array.shape, strict=True)]
    # Including axes without elements.
    whole = dict(sorted(pairs, key=lambda pair: pair[1] != 1))
    found = []
    for term, array in zip(terms, arrays, strict=True):
        sizes = dict(zip(term, array.shape, strict=True))
        own = "".join(letter for letter, size in sizes.items() if size == whole[letter])
        found.append((own, array if own == term else jnp.einsum(f"{term}->{own}", array)))
    return found


def _ranks(least: int = 1, **operands: Any) -> tuple[int, ...]:
    for name, each in operands.items():
        check_array(name, each)
        if each.ndim < least:
            raise InvalidFieldError.at(f"{name}.shape", f"is {each.shape}", f"give at least {least} dimension")
    return tuple(each.ndim for each in operands.values())


def _check_sizes(operands: Mapping[str, Any], pairs: Sequence[Sequence[int]]) -> None:
    """Raises InvalidFieldError if two matching axes have different sizes."""
    (_, one), (name, other) = operands.items()
    for left, right in pairs:
        if one.shape[left] != other.shape[right]:
            problem = f"is {other.shape} for a product with {one.shape}"
            raise InvalidFieldError.at(f"{name}.shape", problem, f"give {one.shape[left]} at axis {right}")
