"""The operator table: every module of this package that has a `SPEC`, by wire name."""

import pkgutil
from importlib import import_module
from types import MappingProxyType
from typing import Final

import aclgrad.operators as package
from aclgrad.operators.spec import OperatorSpec


def _collect() -> dict[str, OperatorSpec]:
    modules = (
        import_module(f"{package.__name__}.{info.name}")
        for info in pkgutil.iter_modules(package.__path__)
        if info.name.endswith("_backward")
    )
    specs = sorted((module.SPEC for module in modules), key=lambda spec: spec.name)
    return {spec.name: spec for spec in specs}


OPERATORS: Final = MappingProxyType(_collect())
