"""The operator table: the `SPEC` of every operator module of this package, by wire name."""

import pkgutil
from importlib import import_module
from types import MappingProxyType
from typing import Final

import aclgrad.operators as package
from aclgrad.operators.spec import OperatorSpec

_SUFFIX: Final = "_backward"
"""What tells an operator's module from the others: every operator so far computes a gradient."""


def _collect() -> dict[str, OperatorSpec]:
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__) if info.name.endswith(_SUFFIX))
    return {name: import_module(f"{package.__name__}.{name}").SPEC for name in names}


OPERATORS: Final = MappingProxyType(_collect())
