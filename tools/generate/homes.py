"""Where operators are in Python: a folder for each, or a family whose tables have a row for each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from aclgrad import operators
from aclgrad.operators import families
from aclgrad.operators.definitions import Definition
from aclgrad.operators.samples import Samples
from aclgrad.operators.spec import OperatorKind, OperatorSpec

PARTS: Final = ("spec", "definition", "samples")
TABLES: Final = {"spec": "SPECS", "definition": "DEFINITIONS", "samples": "SAMPLES"}
"""What each part of a family has: its operators' parts, but for the specs by their names."""


def functions_of(spec: OperatorSpec) -> tuple[str, ...]:
    """Returns the names of the functions that an operator's `definition.py` has."""
    return ("backward", "forward") if spec.kind is OperatorKind.GRADIENT else (spec.kind.value,)


class Operator(NamedTuple):
    """One operator; a part that is missing or wrong is None."""

    spec: OperatorSpec
    definition: Definition | None
    samples: Samples | None


@dataclass(frozen=True)
class Home:
    """The folder of an operator or of a family; a part that does not load is in `failed`."""

    path: Path
    is_family: bool
    modules: dict[str, ModuleType] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{'family' if self.is_family else 'operator'} {self.path.name}"

    @property
    def module(self) -> str:
        """The name by which Python imports it."""
        return f"{(families if self.is_family else operators).__name__}.{self.path.name}"

    def load(self) -> None:
        for part in PARTS:
            if (self.path / f"{part}.py").exists():
                try:
                    self.modules[part] = import_module(f"{self.module}.{part}")
                except Exception as error:  # whatever a file may raise when it is loaded
                    self.failed[part] = error

    def part(self, part: str, name: str) -> Any:
        """Returns what a part has by this name, or None."""
        return getattr(self.modules.get(part), name, None)

    def has_operators(self) -> bool:
        """Says whether there are any, unlike in a family that only shares code."""
        return not self.is_family or any(self.part(part, table) is not None for part, table in TABLES.items())

    def table(self, part: str) -> Mapping[str, Any]:
        """Returns what a part of a family has for each operator."""
        found = self.part(part, TABLES[part])
        return found if isinstance(found, Mapping) else {}

    def specs(self) -> list[OperatorSpec]:
        found = self.part("spec", "SPECS") if self.is_family else (self.part("spec", "SPEC"),)
        return [each for each in found or () if isinstance(each, OperatorSpec)]

    def operators(self) -> Iterator[Operator]:
        for spec in self.specs():
            if self.is_family:
                definition, samples = (self.table(part).get(spec.name) for part in ("definition", "samples"))
            else:
                functions = [self.part("definition", name) for name in functions_of(spec)]
                definition = Definition(*functions) if all(map(callable, functions)) else None
                samples = self.part("samples", "SAMPLES")
            yield Operator(
                spec,
                definition if isinstance(definition, Definition) else None,
                samples if isinstance(samples, Samples) else None,
            )


def homes() -> list[Home]:
    """Returns the operators' folders by name, then those of the families that have operators."""
    found = [Home(folder, is_family=False) for path in operators.__path__ for folder in Path(path).iterdir()]
    found += [Home(folder, is_family=True) for path in families.__path__ for folder in Path(path).iterdir()]
    # A folder that another branch left behind holds compiled files alone.
    ours = [each for each in found if each.path.name[0] not in "_." and any(each.path.glob("*.py"))]
    ours = [each for each in ours if each.module != families.__name__]
    for home in ours:
        home.load()
    return sorted((each for each in ours if each.has_operators()), key=lambda each: (each.is_family, each.path.name))
