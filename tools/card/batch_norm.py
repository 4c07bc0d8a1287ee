"""How a card reads the statistics of batch norm at the ABI, and what its own forward pass saves."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ctypes import c_bool, c_double, c_int32, c_void_p
from functools import partial
from typing import Any, Final

import numpy as np

from aclgrad import reference
from aclgrad.judge.check.gradients import RECIPROCAL, VARIANCE, conclude
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Verdict
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product, product_of_soc
from aclgrad.tolerances import tolerance_of
from tools.abi.acl import AclError, Format
from tools.card.card import Card
from tools.card.findings import Found, judged

Array = np.ndarray[Any, Any]

_SPEC: Final = OPERATORS["batch_norm_backward"]
_SHAPE: Final = (4, 3, 6, 7)
_EPS: Final = 1e-5
_ATTRIBUTES: Final = {"training": True, "eps": _EPS}
_FORWARD: Final = "aclnnBatchNorm"
_PARAMETERS: Final = (*[c_void_p] * 5, c_bool, *[c_double] * 2, *[c_void_p] * 5)
"""Of phase 1 of the forward operator: CANN's aclnnop/aclnn_batch_norm.h."""


def batch_norm(card: Card) -> Iterator[Found]:
    """The reading of saveInvstd: the variance, its reciprocal, and what the card's own forward pass saves."""
    product = product_of_soc(card.soc_name)
    if product is None or product not in _SPEC.products:
        skipped = Finding(Verdict.SKIPPED, f"{card.soc_name} does not have {_SPEC.symbol}")
        yield "statistics", skipped
        return
    values = _values()
    own, other = _by_reading(values)[:: 1 if product is not Product.ASCEND_950 else -1]
    yield "the statistics that the product reads", _tried(partial(_read, card, product, values, own))
    yield "the statistics that other products read", _tried(partial(_read, card, product, values, other))
    yield f"the statistics of {_FORWARD}", _tried(partial(_own, card, product, values))


def _tried(find: Callable[[], Finding]) -> Finding:
    """Returns the finding; a card that fails here may have all other operators."""
    try:
        return find()
    except AclError as error:
        return Finding(Verdict.FAILED, str(error))


def _values() -> dict[str, Array]:
    """Returns gradients, input and weight; the deviation is 3, because near 1 a variance is like its reciprocal."""
    draw = np.random.default_rng(0).standard_normal
    input = (3 * draw(_SHAPE)).astype(np.float32)
    return {"grad_output": draw(_SHAPE).astype(np.float32), "input": input, "weight": draw(3).astype(np.float32)}


def _by_reading(values: dict[str, Array]) -> tuple[Array, Array]:
    variance = values["input"].astype(np.float64).var((0, 2, 3))
    return variance.astype(np.float32), (1 / np.sqrt(variance + _EPS)).astype(np.float32)


def _read(card: Card, product: Product, values: dict[str, Array], saved: Array, mean: Array | None = None) -> Finding:
    """Sends these statistics, and returns which reading explains the gradients."""
    if mean is None:
        mean = values["input"].astype(np.float64).mean((0, 2, 3)).astype(np.float32)
    given = {**values, "save_mean": mean}
    gradients = _gradients(card, {**given, "save_invstd": saved})
    tolerance = tolerance_of(_SPEC, product, given, _ATTRIBUTES)
    names = [each.name for each in _SPEC.outputs]
    found = {}
    for reading, reciprocal in ((VARIANCE, 1 / np.sqrt(saved.astype(np.float64) + _EPS)), (RECIPROCAL, saved)):
        read = {**given, "save_invstd": reciprocal}
        truth = reference.define(_SPEC.name, read, _ATTRIBUTES)
        found[reading] = comparison.each_against_truth(names, gradients, truth, tolerance)
    return conclude(found, RECIPROCAL if product is Product.ASCEND_950 else VARIANCE, str(product))


def _gradients(card: Card, inputs: dict[str, Array]) -> tuple[Array, ...]:
    outputs = [np.zeros(_SHAPE, np.float32), *(np.zeros(3, np.float32) for _ in range(2))]
    with ExitStack() as stack:
        tensors = {name: _tensor(card, stack, each) for name, each in inputs.items()}
        written = [_tensor(card, stack, each) for each in outputs]
        mask = stack.enter_context(card.bool_array((True, True, True)))
        of_batch = [tensors[name].handle for name in ("grad_output", "input", "weight")]
        saved = [tensors[name].handle for name in ("save_mean", "save_invstd")]
        handles = [each.handle for each in written]
        card.run(_SPEC.symbol, *of_batch, None, None, *saved, True, _EPS, mask, *handles)
        return tuple(each.read_storage() for each in written)


def _own(card: Card, product: Product, values: dict[str, Array]) -> Finding:
    """Runs the forward pass, says what it saved, and sends that."""
    phases = [card.undeclared(f"{_FORWARD}{each}") for each in ("GetWorkspaceSize", "")]
    if None in phases:
        return Finding(Verdict.SKIPPED, f"the library has no {_FORWARD}")
    saved_mean, saved = _forward(card, phases, values)
    readings = dict(zip((VARIANCE, RECIPROCAL), _by_reading(values), strict=True))
    found = [name for name, each in readings.items() if np.allclose(saved, each, rtol=1e-4)]
    figures = {f"saved_{index}": float(each) for index, each in enumerate(saved)}
    if not found:
        told = f"it saves {saved.tolist()}, which is neither {VARIANCE} nor {RECIPROCAL}"
        return judged(False, told, "report it with the CANN version", **figures)
    finding = _read(card, product, values, saved, saved_mean)
    return Finding(finding.verdict, f"it saves {found[0]}; {finding.message}", {**finding.figures, **figures})


def _forward(card: Card, phases: list[Any], values: dict[str, Array]) -> tuple[Array, Array]:
    """Returns saveMean and saveInvstd; the running statistics are the defaults."""
    plan, run = phases
    plan.restype = run.restype = c_int32
    plan.argtypes, run.argtypes = _PARAMETERS, (c_void_p, ctypes.c_uint64, c_void_p, c_void_p)
    size, executor = ctypes.c_uint64(), c_void_p()
    with ExitStack() as stack:
        input, weight = (_tensor(card, stack, values[name]) for name in ("input", "weight"))
        output = _tensor(card, stack, np.zeros(_SHAPE, np.float32))
        statistics = [_tensor(card, stack, np.zeros(3, np.float32)) for _ in range(2)]
        given = (input.handle, weight.handle, None, None, None, True, 0.1, _EPS, output.handle)
        places = [each.handle for each in statistics]
        card.expect(_FORWARD, plan(*given, *places, ctypes.byref(size), ctypes.byref(executor)))
        workspace = stack.enter_context(card.memory(max(size.value, 1)))
        card.expect(_FORWARD, run(workspace, size.value, executor, None))
        card.call("aclrtSynchronizeStream", None)
        mean, saved = (each.read_storage() for each in statistics)
    return mean, saved


def _tensor(card: Card, stack: ExitStack, array: Array) -> Any:
    return stack.enter_context(card.tensor(array, format_=Format.NCHW if array.ndim == 4 else Format.ND))
