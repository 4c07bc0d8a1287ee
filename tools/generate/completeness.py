"""Whether the operators' folders are complete and fit the headers: each problem says what to add where."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Final

import aclgrad.operators as package
from aclgrad.operators.samples import PLANES, Samples
from aclgrad.operators.spec import OperatorSpec
from native.operator_table import find_operators, find_wrong_declarations, parameters_of
from tools.generate.trial import described, failures

NATIVE: Final = Path(__file__).parents[2] / "native"
PARTS: Final = {
    "spec": "SPEC, an OperatorSpec",
    "definition": "backward and forward, the gradient in float64 and what it is the gradient of",
    "samples": "SAMPLES, a Samples with cases",
}
_NAMES: Final[Mapping[str, Mapping[str, Callable[[object], bool]]]] = {
    "spec": {"SPEC": lambda value: isinstance(value, OperatorSpec)},
    "definition": {"backward": callable, "forward": callable},
    "samples": {"SAMPLES": lambda value: isinstance(value, Samples)},
}

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
            yield from failures(modules["spec"].SPEC, modules["samples"].SAMPLES, modules["definition"])
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
            yield f"operator {folder.name}: {part}.py does not load: {described(error)}"
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
    if "definition" in modules:
        wanted = {each.python_name for each in spec.inputs} | {each.name for each in spec.attributes}
        # A forward takes the tensors that the gradients are of, whether the operator is given them or not.
        differentiated = {each.of for each in spec.outputs} - {"self"}
        for function, also in (
            (modules["definition"].backward, set()),
            (modules["definition"].forward, differentiated),
        ):
            if set(signature(function).parameters) - {"input"} != (wanted | also) - {"input"}:
                listed = ", ".join(sorted(wanted | also))
                yield f"operator {name}: definition.{function.__name__} has to take {listed}"
    if "samples" in modules:
        yield from _lacking_samples(spec, modules["samples"].SAMPLES)


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
