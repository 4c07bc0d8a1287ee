"""The calls of the lab, with gradients from the definitions; and calls that a server has to refuse."""

import pickle
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import TensorType, TensorView, view_of_array
from aclgrad.tolerances import tolerance_of
from aclgrad.wire.messages import OperatorCall
from tools.benchmarks.sizes import OPERATOR, SIZES
from tools.lab.chains import draw_chains, draw_large_chains
from tools.lab.known import Known, KnownProgram

PRODUCT: Final = Product.ATLAS_A2
"""What the host library is by default."""
GRAD: Final = np.ones((1, 2, 2), np.float32)
BAD_REQUESTS: Final[Sequence[tuple[str, dict[str, Any], dict[str, Any]]]] = (
    ("nothing", {"grad_output": GRAD}, {}),
    (OPERATOR, {"grad_output": GRAD}, {}),
    (OPERATOR, {"grad_output": GRAD, "self": (4, 4)}, {}),
    (OPERATOR, {"grad_output": GRAD, "self": (1, 4, 4)}, {"stride": [2, 2]}),
    (OPERATOR, {"grad_output": GRAD.astype(np.int32), "self": (1, 4, 4)}, {}),
    (OPERATOR, {"grad_output": GRAD, "self": (1, 2**20, 2**20)}, {}),
)
"""Operator, inputs and attributes of calls that a server has to refuse."""
SMALL_ELEMENTS: Final = 2**14
HUGE: Final = (5, 64, 96, 96)
"""The shape of an input of 11.8 MB, which goes in chunks by itself."""
CASES: Final = 16


def known(operator: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]) -> Known:
    truths = arrays_of(reference.define(operator, inputs, attributes))
    spec = OPERATORS[operator]
    tolerance = tolerance_of(spec, PRODUCT, inputs, attributes)
    limits = (tolerance.of(each.name).limit(truth) for each, truth in zip(spec.returned, truths, strict=True))
    return Known(operator, inputs, attributes, truths, tuple(limits))


def known_case(typed: TypedCase) -> Known:
    return known(typed.spec.name, typed.arrays(), dict(typed.case.attributes))


def call_of(known: Known) -> OperatorCall:
    """Returns what a client sends for a call whose input is a shape."""
    gradient = view_of_array("grad_output", known.inputs["grad_output"])
    images = TensorView("self", TensorType(gradient.type.dtype, known.inputs["self"]))
    return OperatorCall(known.operator, (gradient, images), {})


@cache
def of_size(name: str) -> Known:
    """Returns the call with a gradient of this size, which has one cell of input for each of its own."""
    shape = SIZES[name].shape
    return known(OPERATOR, {"grad_output": _random(shape), "self": shape}, {})


@cache
def of_all_operators() -> list[Known]:
    """Returns every case of every operator with every dtype."""
    return [known_case(typed) for typed in typed_cases(PRODUCT)]


def write_questions(path: Path, kinds: Sequence[str], operators: set[str], seed: int = 0) -> str:
    """Writes what callers ask, by the kind of call, of these operators alone; returns the path."""
    cases = [each for each in typed_cases(PRODUCT) if each.dtype == "float32" and each.spec.name in operators]
    small = [each for each in cases if max(map(np.prod, each.case.shapes.values())) <= SMALL_ELEMENTS]
    few = [known_case(each) for each in random.Random(seed).sample(small, min(len(small), CASES))]
    made = {
        "operator": of_all_operators if "operator" in kinds else list,
        "torch": lambda: [_images(number) for number in range(CASES // 2)],
        **dict.fromkeys(("large", "chunked", "shared"), lambda: [of_size("1 MB")]),
        **dict.fromkeys(("program", "shared program"), lambda: draw_chains(CASES // 2, seed)),
        "program in chunks": lambda: draw_large_chains(CASES // 4, seed),
        "huge": lambda: [known(OPERATOR, {"grad_output": _random((*HUGE[:2], 7, 5)), "self": HUGE}, {})],
        "bad": lambda: BAD_REQUESTS,
    }
    questions = {kind: made.get(kind, lambda: [*few, of_size("16 KB")])() for kind in kinds}
    path.write_bytes(pickle.dumps(questions))
    return str(path)


class Sampler:
    """Compares a share of the replies with their definition, and counts them."""

    def __init__(self, share: float, seed: int) -> None:
        self._share = share
        self._random = random.Random(seed)
        self.compared = 0

    def wants_next(self) -> bool:
        return self._random.random() < self._share

    def compare(self, known: Known | KnownProgram, reply: Any) -> None:
        self.compared += 1
        known.compare(reply)


def _images(seed: int) -> Known:
    """Returns a call that a function of PyTorch makes: its input is an array."""
    images = np.zeros((1, 4, 32, 32), np.float32)
    return known(OPERATOR, {"grad_output": _random((1, 4, 7, 5), seed), "self": images}, {})


def _random(shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)
