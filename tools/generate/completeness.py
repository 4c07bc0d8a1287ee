"""Whether the operators are complete and fit the headers: each problem says what to add where.

Their parts are tried on small calls, so that `make generate` says in a second what the tests say in minutes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Final

import numpy as np

from aclgrad.operators.cases import TypedCase, arrays_of
from aclgrad.operators.definitions import Definition
from aclgrad.operators.items import Items
from aclgrad.operators.samples import PLANES, Case, Samples
from aclgrad.operators.spec import OperatorSpec, list_of
from aclgrad.products import Product
from aclgrad.tensors import TensorType
from native.operator_table import find_operators, find_wrong_declarations, parameters_of
from tools.generate.homes import TABLES, Home, Operator, functions_of, homes

NATIVE: Final = Path(__file__).parents[2] / "native"
_OF_FOLDERS: Final = {
    "spec": "SPEC, an OperatorSpec",
    "definition": "backward and forward, the gradient in float64 and what it is the gradient of, or the value alone",
    "samples": "SAMPLES, a Samples with cases",
}
"""What each part of an operator's folder has to have."""
_OF_FAMILIES: Final = {
    "spec": "SPECS, a tuple of OperatorSpec",
    "definition": "DEFINITIONS, a Definition for each operator's name",
    "samples": "SAMPLES, a Samples for each operator's name",
}
_NAMES: Final[Mapping[str, Mapping[str, Callable[[object], bool]]]] = {
    "spec": {"SPEC": lambda value: isinstance(value, OperatorSpec)},
    "definition": {},
    "samples": {"SAMPLES": lambda value: isinstance(value, Samples)},
}
_TABLES: Final[Mapping[str, Mapping[str, Callable[[object], bool]]]] = {
    "spec": {"SPECS": lambda value: isinstance(value, tuple)},
    "definition": {"DEFINITIONS": lambda value: isinstance(value, Mapping)},
    "samples": {"SAMPLES": lambda value: isinstance(value, Mapping)},
}
_LONG_CELLS: Final = 2**16
UNWRITTEN: Final = "UNWRITTEN"
"""What `make new-operator` writes in place of each text that only the author knows."""


def problems() -> Iterator[str]:
    """Yields what is missing or wrong in the folders and rows."""
    owners: dict[str, str] = {}
    for home in homes():
        found = [*unwritten(home.path, str(home)), *_missing(home)]
        rows = list(home.operators())
        found += [problem for row in rows for problem in _disagreements(home, row)]
        yield from found
        if not found:
            for row in rows:
                yield from _failures(row)
        for spec in home.specs():
            other = owners.setdefault(spec.symbol, spec.name)
            if other != spec.name and (home.is_family or spec.name == home.path.name):
                yield f"operators {other} and {spec.name} have the symbol {spec.symbol}; change it in one spec.py"


def unwritten(folder: Path, owner: str) -> Iterator[str]:
    """Yields the lines of a folder's files that are still those of the stub."""
    for path in sorted(folder.glob("*.*")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if UNWRITTEN in line:
                yield f"{owner}: line {number} of {path.name} is still the stub's: {line.strip()}"


def undeclared(specs: Iterable[OperatorSpec]) -> Iterator[str]:
    """Yields wrong declarations, and operators without one that fits: the runtime could not bind their arguments."""
    yield from find_wrong_declarations(NATIVE)
    declared = find_operators(NATIVE)
    for spec in specs:
        if spec.symbol not in declared:
            remedy = f"add it to {'native/include/aclnnop'}, or fix `symbol` in spec.py"
            yield f"operator {spec.name}: no header declares {spec.symbol}; {remedy}"
        else:
            parameters = parameters_of(spec.symbol, declared[spec.symbol])
            yield from (f"operator {spec.name}: {problem}" for problem in _unfitting(spec, parameters))


def _missing(home: Home) -> Iterator[str]:
    """Yields what a folder lacks, and the rows that tables lack."""
    contents, sound = (_OF_FAMILIES, _TABLES) if home.is_family else (_OF_FOLDERS, _NAMES)
    for part, content in contents.items():
        if part in home.failed:
            yield f"{home}: {part}.py does not load: {_described(home.failed[part])}"
        elif part not in home.modules:
            yield f"{home} has no {part}.py; add {home.path / part}.py with {content}"
        else:
            missing = [name for name, is_sound in sound[part].items() if not is_sound(home.part(part, name))]
            for spec in home.specs() if part == "definition" and not home.is_family else ():
                missing += [name for name in functions_of(spec) if not callable(home.part(part, name))]
            yield from (f"{home}: {part}.py has no {name}; it has to have {content}" for name in missing)
    names = {each.name for each in home.specs()}
    for part in ("definition", "samples") if home.is_family else ():
        for name in sorted(names - set(home.table(part))):
            yield f"operator {name} has no row in {TABLES[part]} of {home.path.name}/{part}.py; add one"
        for name in sorted(set(home.table(part)) - names):
            yield f"{home}: {part}.py has a row of {name}, and SPECS of spec.py has none; remove it or add one"


def _disagreements(home: Home, operator: Operator) -> Iterator[str]:
    spec, definition, samples = operator
    if not home.is_family and spec.name != home.path.name:
        yield f"{home}: spec.py has the name {spec.name!r}; a folder is named as its operator"
    if definition is not None:
        wanted = {each.python_name for each in spec.inputs} | {each.name for each in spec.attributes}
        # A forward takes the tensors that the gradients are of, whether the operator is given them or not.
        differentiated = {each.of for each in spec.outputs if UNWRITTEN not in each.of} - {"self"}
        computed = functions_of(spec)[0]
        for name, function, also in (
            (computed, definition.compute, set()),
            ("forward", definition.forward, differentiated),
        ):
            if function and set(signature(function).parameters) - {"input"} != (wanted | also) - {"input"}:
                yield f"operator {spec.name}: definition.{name} has to take {', '.join(sorted(wanted | also))}"
    if samples is not None:
        yield from _lacking_samples(spec, samples)


def _lacking_samples(spec: OperatorSpec, samples: Samples) -> Iterator[str]:
    inputs = {each.name for each in spec.inputs}
    needed = {each.name for each in spec.inputs if not each.is_optional}
    lists = {each.name for each in spec.inputs if each.is_list}
    if not samples.cases:
        yield f"operator {spec.name} has no cases; add some to SAMPLES.cases in its samples.py"
    for product in sorted(spec.products) if samples.cases else ():
        if not any(product in case.products for case in samples.cases):
            yield f"operator {spec.name} has no case on product {product}; add one to SAMPLES.cases in its samples.py"
    for name in sorted({case.name for case in samples.cases}):
        same = [case for case in samples.cases if case.name == name]
        if len(same) > 1:
            yield f"operator {spec.name} has {len(same)} cases named {name}; rename them in its samples.py"
        given = {list_of(each) if list_of(each) in lists else each for each in same[0].shapes}
        if not needed <= given <= inputs:
            yield f"operator {spec.name}: case {name} has to give the shapes of {', '.join(sorted(needed))}"
    if set(samples.timed) != set(PLANES):
        yield f"operator {spec.name}: SAMPLES.timed has to have a case for each of {', '.join(PLANES)}"


def _failures(operator: Operator) -> Iterator[str]:
    """Yields what fails on the operator's example, or else the products that have no long call."""
    spec, definition, samples = operator
    if definition is None or samples is None:
        return
    try:
        _compute(spec, samples, definition)
        refusal = _joined(spec, samples)
        without = [product for product in sorted(spec.products) if not any(_long_calls(spec, samples, product))]
    except Exception as error:  # whatever the author's code may raise
        yield f"operator {spec.name} fails when it is tried on a sample and on SAMPLES.long: {_described(error)}"
        return
    if refusal is not None:
        yield (
            f"operator {spec.name}: two calls do not join, because {refusal}; let batch_axes in its spec.py say "
            'along which axes they join, and which attributes grow with the batch: BatchAxes(counts=("input_size",))'
        )
    for product in without:
        yield (
            f"operator {spec.name} has no long call on product {product}; let SAMPLES.long in its samples.py yield "
            "legal cases of the given number of cells: a row, a column, a plane"
        )


def _described(error: Exception) -> str:
    """Returns the text of an error, after its type if it does not say enough alone."""
    return str(error) if isinstance(error, ImportError | ValueError) else f"{type(error).__name__}: {error}"


def _compute(spec: OperatorSpec, samples: Samples, definition: Definition) -> None:
    """Raises ValueError if spec and definition disagree, or whatever one of them raises."""
    generator = np.random.default_rng(0)
    arguments = samples.example.arguments(spec, spec.dtypes[0])
    outputs = [each.infer(arguments) for each in spec.returned]
    for product, dtype in _served(spec):
        try:
            spec.tolerance(samples.example.arguments(spec, dtype), product, dtype)
        except KeyError:
            raise ValueError(f"its tolerance has no {dtype}, which product {product} takes") from None
    arrays = samples.values(generator, samples.example, _normal(generator, arguments.inputs))
    given = {**arrays, **arguments.attributes}
    results = _called(definition.compute, given)
    shapes, expected = [each.shape for each in arrays_of(results)], [each.shape for each in outputs]
    if shapes != expected:
        name = functions_of(spec)[0]
        raise ValueError(f"definition.{name} returns the shapes {shapes}, and the outputs of spec.py have {expected}")
    if definition.forward is not None:
        differentiated = {each.of: type for each, type in zip(spec.returned, outputs, strict=True)}
        _called(definition.forward, _normal(generator, differentiated) | given)


def _joined(spec: OperatorSpec, samples: Samples) -> str | None:
    """Returns why two calls like the example do not join, or None if they do or are not said to."""
    items = Items.of(TypedCase(spec, samples.example, spec.dtypes[0]))
    if items is None:
        return None
    batch = items.batch(2)
    for product in sorted(spec.products):
        is_legal = not any(spec.check(items.typed.arguments, product))
        for violation in spec.check(batch.arguments, product) if is_legal else ():
            return f"{violation.field} {violation.problem}"
    for name, type in batch.outputs.items():
        axis, one = items.axes.of(name), items.typed.outputs[name].shape
        if axis is not None and type.shape[axis] != 2 * one[axis]:
            return f"axis {axis} of {name} stays {one[axis]}"
    return None


def _served(spec: OperatorSpec) -> Iterator[tuple[Product, str]]:
    yield from ((product, dtype) for product in spec.products for dtype in spec.dtypes_on(product))


def _normal(generator: np.random.Generator, types: Mapping[str, TensorType]) -> dict[str, Any]:
    return {name: generator.standard_normal(each.shape).astype(each.dtype.numpy) for name, each in types.items()}


def _called(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    renamed = {"input" if name == "self" else name: value for name, value in given.items()}
    parameters = signature(function).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return function(**{name: value for name, value in renamed.items() if takes_all or name in parameters})


def _long_calls(spec: OperatorSpec, samples: Samples, product: Product) -> Iterator[Case]:
    """Yields the legal cases whose larger tensor has at least half of the cells."""
    for case in samples.long(_LONG_CELLS):
        for dtype in spec.dtypes_on(product):
            arguments = case.arguments(spec, dtype)
            tensors = (*arguments.inputs.values(), *(each.infer(arguments) for each in spec.outputs))
            is_long = max(each.element_count for each in tensors) >= _LONG_CELLS / 2
            if is_long and not list(spec.check(arguments, product)):
                yield case


def _unfitting(spec: OperatorSpec, parameters: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yields where inputs, attributes and outputs are more or fewer than the parameters, which are types and names."""
    tensors: list[str] = []
    masks: list[str] = []
    values: list[str] = []
    for kind, name in parameters:
        is_mask = "aclBoolArray" in kind and name.lower().endswith("mask")
        (tensors if "aclTensor" in kind else masks if is_mask else values).append(name)
    passed = [each for each in spec.attributes if each.is_passed]
    written = sum(not each.begins_as for each in spec.outputs)
    inputs, written = len(spec.inputs) + len(spec.null_inputs), written + len(spec.null_outputs)
    if len(tensors) != inputs + written:
        has = f"{inputs} inputs and {written} outputs"
        yield f"{spec.symbol} takes the tensors {', '.join(tensors)}, and spec.py has {has}"
    if spec.passes is None and len(values) != len(passed):
        yield f"{spec.symbol} takes the values {', '.join(values)}, and spec.py has {len(passed)} attributes"
    if not masks and any(each.is_nullable for each in spec.outputs):
        yield f"{spec.symbol} takes no mask, and spec.py has nullable outputs"
