"""What the rows of normalisations share."""

from collections.abc import Iterator, Mapping
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.families.elementwise.spec import LARGEST
from aclgrad.operators.rules import equal_sizes
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec, InputSpec, Tolerance
from aclgrad.products import Product
from aclgrad.tensors import DTYPES

FLOAT32: Final = DTYPES["float32"]
TOLERANCES: Final = {
    "float32": Tolerance(relative=1e-5, absolute=1e-5),
    "float16": Tolerance(relative=1e-3, absolute=1e-3),
    "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
}
# Where all elements are nearly equal, the rounding of their mean counts 1 / sqrt(eps) times.
CENTRED: Final = {**TOLERANCES, "float32": Tolerance(relative=1e-5, absolute=2.0**-13)}

Dtypes = Mapping[Product, tuple[str, ...]]


def eps_spec(default: float, minimum: float, name: str = "eps", of: str = "variance") -> AttributeSpec:
    """Returns the attribute that is added before the root is taken."""
    summary = f"What is added to each {of}; rounded to float32."
    return AttributeSpec(name, summary, AttributeKind.DOUBLE, default=default, minimum=minimum, maximum=LARGEST)


def parameters_of(dtypes: Dtypes, ranks: tuple[int, ...], shape: str, *names: str) -> tuple[InputSpec, ...]:
    """Returns the optional inputs that multiply the normalised elements and are added to them, under these names."""
    words = ("What the normalised elements are multiplied by", "What is added to them")
    defaults = ("ones", "zeros")
    return tuple(
        InputSpec(name, f"{each}, {shape}. Left out: {default}.", dtypes, ranks, is_optional=True)
        for name, each, default in zip(names, words, defaults, strict=True)
    )


def check_parameters(
    arguments: Arguments, reference: str, shape: tuple[int, ...], of: str, *names: str, wide: bool = False
) -> Iterator[Violation]:
    """Those that are given have the shape and the dtype of the reference or, if `wide`, float32."""
    dtype = arguments.inputs[reference].dtype
    for name in names:
        given = arguments.inputs.get(name)
        if given is None:
            continue
        if given.dtype is not dtype and not (wide and given.dtype is FLOAT32):
            problem = f"is {given.dtype}, but inputs[{reference}] is {dtype}"
            remedy = f"send it as {'float32 or ' if wide and dtype is not FLOAT32 else ''}{dtype}"
            yield Violation(f"inputs[{name}].data_type", problem, remedy)
        yield from equal_sizes(f"inputs[{name}].shape", given.shape, of, shape)
