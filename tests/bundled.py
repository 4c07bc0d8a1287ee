"""Bundles of sample calls, and zip files that are not quite such bundles."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

import aclgrad
from aclgrad import reference
from aclgrad.judge.bundles import Bundle, JudgedProgram
from aclgrad.judge.programs.judging import DEFINITION
from aclgrad.judge.programs.program import one_step
from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.products import Product

Array = np.ndarray[Any, Any]
EXPLODES = b"open('exploded', 'w').close()\n"


def typed_case(operator: str, dtype: str, case: str) -> TypedCase:
    cases = typed_cases(Product.ATLAS_A2)
    return next(each for each in cases if (each.spec.name, each.dtype, each.case.name) == (operator, dtype, case))


def bundle_of(
    client: aclgrad.Client,
    typed: TypedCase,
    *,
    change: Callable[[Array], Array] = lambda gradient: gradient,
    shape_only: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
) -> Bundle:
    """Returns the bundle of a call that is made now, whose gradients are changed in it."""
    inputs: dict[str, Any] = dict(typed.arrays())
    truths = dict(
        zip(typed.outputs, arrays_of(reference.define(typed.spec.name, inputs, typed.attributes)), strict=True)
    )
    inputs |= {name: inputs[name].shape for name in shape_only}
    result = client.execute(typed.spec.name, inputs, typed.case.attributes, outputs=outputs or None)
    names = [name for name in typed.outputs if not outputs or name in outputs]
    gradients = [change(each).astype(each.dtype) for each in arrays_of(result) if each is not None]
    judged = JudgedProgram.of_call(
        one_step(typed.spec, inputs, typed.case.attributes, outputs),
        gradients=dict(zip(names, gradients, strict=True)),
        expected={name: truths[name] for name in names},
        computed_by=DEFINITION,
        tolerance=typed.tolerance(Product.ATLAS_A2),
    )
    return Bundle.of(judged, "a finding", client.server_status())


def with_judged(bundle: Bundle, **changes: Any) -> Bundle:
    return replace(bundle, judged=replace(bundle.judged, **changes))


def members_of(path: Path) -> dict[str, bytes]:
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path: Path, members: Mapping[str, bytes], **options: Any) -> Path:
    with ZipFile(path, "w", **{"compression": ZIP_DEFLATED, **options}) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path
