"""Whether the operators' folders are complete: each problem names the operator, and says what to add where."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Final

import aclgrad.operators as package
from aclgrad.operators.samples import PLANES, Samples
from aclgrad.operators.spec import OperatorSpec
from aclgrad.operators.trial import described, failures

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


def unlisted(listed: Mapping[str, OperatorSpec]) -> Iterator[str]:
    """Yields where the folders and the list of the operators differ."""
    names = {folder.name for folder in folders()}
    yield from (f"operator {name} is not in catalogue.py; run `make generate`" for name in sorted(names - set(listed)))
    yield from (f"operator {name} has no folder; run `make generate`" for name in sorted(set(listed) - names))


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
