"""Whether the operators' folders are complete and fit the headers: each problem says what to add where.

Their parts are tried on small calls, so that `make generate` says in a second what the tests say in minutes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

import aclgrad.operators as package
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.samples import PLANES, Case, Samples
from aclgrad.operators.spec import OperatorKind, OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import TensorType
from native.operator_table import find_operators, find_wrong_declarations, parameters_of

NATIVE: Final = Path(__file__).parents[2] / "native"
PARTS: Final = {
    "spec": "SPEC, an OperatorSpec",
    "definition": "backward and forward, the gradient in float64 and what it is the gradient of, or the value alone",
    "samples": "SAMPLES, a Samples with cases",
}
_NAMES: Final[Mapping[str, Mapping[str, Callable[[object], bool]]]] = {
    "spec": {"SPEC": lambda value: isinstance(value, OperatorSpec)},
    "definition": {},
    "samples": {"SAMPLES": lambda value: isinstance(value, Samples)},
}
_LONG_CELLS: Final = 2**16
UNWRITTEN: Final = "UNWRITTEN"
"""What `make new-operator` writes in place of each text that only the author knows."""


def folders() -> list[Path]:
    """Returns the operators' folders, by name."""
    inside = [each for path in package.__path__ for each in Path(path).iterdir()]
    # A folder that another branch left behind holds compiled files alone.
    ours = (each for each in inside if each.name[0] not in "_." and any(each.glob("*.py")))
    return sorted(ours, key=lambda each: each.name)


def problems() -> Iterator[str]:
    """Yields what is missing or wrong in the folders."""
    owners: dict[str, str] = {}
    for folder in folders():
        modules: dict[str, ModuleType] = {}
        found = [*unwritten(folder), *_problems_of(folder, modules)]
        yield from found
        if not found:
            yield from _failures(modules["spec"].SPEC, modules["samples"].SAMPLES, modules["definition"])
        if "spec" in modules:
            symbol = modules["spec"].SPEC.symbol
            other = owners.setdefault(symbol, folder.name)
            if other != folder.name == modules["spec"].SPEC.name:
                yield f"operators {other} and {folder.name} have the symbol {symbol}; change one of them in its spec.py"


def unwritten(folder: Path) -> Iterator[str]:
    """Yields the lines of an operator's files that are still those of the stub."""
    for path in sorted(folder.glob("*.*")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if UNWRITTEN in line:
                yield f"operator {folder.name}: line {number} of {path.name} is still the stub's: {line.strip()}"


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


def _problems_of(folder: Path, modules: dict[str, ModuleType]) -> Iterator[str]:
    """Yields the problems of one folder; `modules` gets those of its parts that are sound."""
    for part, content in PARTS.items():
        if not (folder / f"{part}.py").exists():
            yield f"operator {folder.name} has no {part}.py; add {folder / part}.py with {content}"
            continue
        try:
            module = import_module(f"{package.__name__}.{folder.name}.{part}")
        except Exception as error:  # whatever a file may raise when it is loaded
            yield f"operator {folder.name}: {part}.py does not load: {_described(error)}"
            continue
        missing = [name for name, is_sound in _NAMES[part].items() if not is_sound(getattr(module, name, None))]
        yield from (f"operator {folder.name}: {part}.py has no {name}; it has to have {content}" for name in missing)
        if not missing:
            modules[part] = module
    if "spec" in modules:
        yield from _disagreements(folder.name, modules)


def _disagreements(name: str, modules: Mapping[str, ModuleType]) -> Iterator[str]:
    spec: OperatorSpec = modules["spec"].SPEC
    if spec.name != name:
        yield f"operator {name}: spec.py has the name {spec.name!r}; a folder is named as its operator"
    wrong = [each for each in _functions(spec) if not callable(getattr(modules.get("definition"), each, None))]
    if "definition" in modules and wrong:
        has = f"it has to have {PARTS['definition']}"
        yield from (f"operator {name}: definition.py has no {each}; {has}" for each in wrong)
    elif "definition" in modules:
        wanted = {each.python_name for each in spec.inputs} | {each.name for each in spec.attributes}
        # A forward takes the tensors that the gradients are of, whether the operator is given them or not.
        differentiated = {each.of for each in spec.outputs} - {"self"}
        for each in _functions(spec):
            function, also = getattr(modules["definition"], each), differentiated if each == "forward" else set()
            if set(signature(function).parameters) - {"input"} != (wanted | also) - {"input"}:
                listed = ", ".join(sorted(wanted | also))
                yield f"operator {name}: definition.{each} has to take {listed}"
    if "samples" in modules:
        yield from _lacking_samples(spec, modules["samples"].SAMPLES)


def _functions(spec: OperatorSpec) -> tuple[str, ...]:
    return ("backward", "forward") if spec.kind is OperatorKind.GRADIENT else (spec.kind.value,)


def _lacking_samples(spec: OperatorSpec, samples: Samples) -> Iterator[str]:
    inputs = {each.name for each in spec.inputs}
    needed = {each.name for each in spec.inputs if not each.is_optional}
    if not samples.cases:
        yield f"operator {spec.name} has no cases; add some to SAMPLES.cases in its samples.py"
    for product in sorted(spec.products) if samples.cases else ():
        if not any(product in case.products for case in samples.cases):
            yield f"operator {spec.name} has no case on product {product}; add one to SAMPLES.cases in its samples.py"
    for name in sorted({case.name for case in samples.cases}):
        same = [case for case in samples.cases if case.name == name]
        if len(same) > 1:
            yield f"operator {spec.name} has {len(same)} cases named {name}; rename them in its samples.py"
        if not needed <= set(same[0].shapes) <= inputs:
            yield f"operator {spec.name}: case {name} has to give the shapes of {', '.join(sorted(needed))}"
    if set(samples.timed) != set(PLANES):
        yield f"operator {spec.name}: SAMPLES.timed has to have a case for each of {', '.join(PLANES)}"


def _failures(spec: OperatorSpec, samples: Samples, definition: ModuleType) -> Iterator[str]:
    """Yields what fails on the operator's example, or else the products that have no long call."""
    try:
        _compute(spec, samples, definition)
        without = [product for product in sorted(spec.products) if not any(_long_calls(spec, samples, product))]
    except Exception as error:  # whatever the author's code may raise
        yield f"operator {spec.name} fails when it is tried on a sample and on SAMPLES.long: {_described(error)}"
        return
    for product in without:
        yield (
            f"operator {spec.name} has no long call on product {product}; let SAMPLES.long in its samples.py yield "
            "legal cases of the given number of cells: a row, a column, a plane"
        )


def _described(error: Exception) -> str:
    """Returns the text of an error, after its type if it does not say enough alone."""
    return str(error) if isinstance(error, ImportError | ValueError) else f"{type(error).__name__}: {error}"


def _compute(spec: OperatorSpec, samples: Samples, definition: ModuleType) -> None:
    """Raises ValueError if spec and definition disagree, or whatever one of them raises."""
    generator = np.random.default_rng(0)
    arguments = samples.example.arguments(spec, spec.dtypes[0])
    outputs = [each.infer(arguments) for each in spec.outputs]
    for product, dtype in _served(spec):
        try:
            spec.tolerance(samples.example.arguments(spec, dtype), product, dtype)
        except KeyError:
            raise ValueError(f"its tolerance has no {dtype}, which product {product} takes") from None
    arrays = samples.values(generator, samples.example, _normal(generator, arguments.inputs))
    given = {**arrays, **arguments.attributes}
    name, *forward = _functions(spec)
    results = _called(getattr(definition, name), given)
    shapes, expected = [each.shape for each in arrays_of(results)], [each.shape for each in outputs]
    if shapes != expected:
        raise ValueError(f"definition.{name} returns the shapes {shapes}, and the outputs of spec.py have {expected}")
    if forward:
        differentiated = {each.of: type for each, type in zip(spec.outputs, outputs, strict=True)}
        _called(definition.forward, _normal(generator, differentiated) | given)


def _served(spec: OperatorSpec) -> Iterator[tuple[Product, str]]:
    yield from ((product, dtype) for product in spec.products for dtype in spec.dtypes_on(product))


def _normal(generator: np.random.Generator, types: Mapping[str, TensorType]) -> dict[str, Any]:
    return {name: generator.standard_normal(each.shape).astype(each.dtype.numpy) for name, each in types.items()}


def _called(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    renamed = {"input" if name == "self" else name: value for name, value in given.items()}
    return function(**{name: renamed[name] for name in signature(function).parameters if name in renamed})


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
    kinds: dict[str, list[str]] = {"aclTensor": [], "aclBoolArray": [], "": []}
    for kind, name in parameters:
        kinds[next(each for each in kinds if each in kind)].append(name)
    tensors, masks, values = kinds.values()
    if len(tensors) != len(spec.inputs) + len(spec.outputs):
        has = f"{len(spec.inputs)} inputs and {len(spec.outputs)} outputs"
        yield f"{spec.symbol} takes the tensors {', '.join(tensors)}, and spec.py has {has}"
    if len(values) != len(spec.attributes):
        yield f"{spec.symbol} takes the values {', '.join(values)}, and spec.py has {len(spec.attributes)} attributes"
    if not masks and any(each.is_nullable for each in spec.outputs):
        yield f"{spec.symbol} takes no mask, and spec.py has nullable outputs"
