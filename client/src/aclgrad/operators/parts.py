"""The parts of operators, loaded on demand from a folder or from the tables of a family."""

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from aclgrad.operators.catalogue import FAMILIES
from aclgrad.operators.definitions import Definition
from aclgrad.operators.samples import Samples

_FAMILY: Final = {spec.name: family for family, specs in FAMILIES.items() for spec in specs}


def definition_of(operator: str) -> Definition:
    """Returns the definition of an operator, by its wire name."""
    module = _module(operator, "definition")
    if operator in _FAMILY:
        found: Definition = module.DEFINITIONS[operator]
        return found
    if hasattr(module, "backward"):
        return Definition(module.backward, module.forward)
    return Definition(module.value, inside=getattr(module, "inside", None))


@cache
def samples_of(operator: str) -> Samples:
    """Returns the samples of an operator, by its wire name."""
    module = _module(operator, "samples")
    found: Samples = module.SAMPLES[operator] if operator in _FAMILY else module.SAMPLES
    return found


def _module(operator: str, part: str) -> ModuleType:
    home = f"families.{_FAMILY[operator]}" if operator in _FAMILY else operator
    return import_module(f"aclgrad.operators.{home}.{part}")
