"""The processes of clients of a run, and the questions that they ask."""

import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from aclgrad.operators.cases import typed_cases
from tools.benchmarks.sizes import OPERATOR
from tools.client_processes import ClientProcess, ClientProcesses
from tools.gradients import PRODUCT, Known, of_size
from tools.rollout.caller import Orders
from tools.rollout.versions import Version

DTYPE: Final = "float32"
CASES: Final = 16
SMALL_ELEMENTS: Final = 2**14
HUGE: Final = (5, 64, 96, 96)
"""11.8 MB, which go in chunks by themselves."""
CALLERS: Final = 3
PAUSE_S: Final = 0.06
DEADLINE_S: Final = 10.0
_END_S: Final = 30.0


def write_questions(path: Path, operators: set[str]) -> None:
    """Writes calls of these operators, by the method that sends them, with their gradients by the definition."""
    cases = [each for each in typed_cases(PRODUCT) if each.dtype == DTYPE and each.spec.name in operators]
    small = [each for each in cases if max(map(np.prod, each.case.shapes.values())) <= SMALL_ELEMENTS]
    few = [Known.of_case(each) for each in random.Random(0).sample(small, min(len(small), CASES))]
    grad_output = np.random.default_rng(0).standard_normal((*HUGE[:2], 7, 5)).astype(np.float32)
    huge = Known.of(OPERATOR, {"grad_output": grad_output, "self": HUGE}, {})
    asked = {"unary": few, "batch": few, "large": [of_size("1 MB")], "chunked": [huge]}
    path.write_bytes(pickle.dumps({method: [_packed(each) for each in known] for method, known in asked.items()}))


def _packed(known: Known) -> tuple[Any, ...]:
    allowed = [known.tolerance.limit(truth) for truth in known.truths]
    return known.operator, dict(known.inputs), dict(known.attributes), list(known.truths), allowed


def clients(versions: Sequence[Version], target: str, questions: Path, folder: Path) -> ClientProcesses:
    """Returns the processes of both kinds of client of each version, not started."""
    # The first of those that are the same.
    different = {version.python: version for version in reversed(versions)}
    styles = [(version, style) for version in different.values() for style in ("threads", "tasks")]
    return ClientProcesses([_client(*each, target, questions, folder) for each in styles], _END_S)


def _client(version: Version, style: str, target: str, questions: Path, folder: Path) -> ClientProcess:
    name = f"{version.name}-{style}"
    history = folder / f"{name}.jsonl"
    orders = Orders(
        name,
        style,
        target,
        CALLERS,
        PAUSE_S,
        DEADLINE_S,
        str(questions),
        str(history),
        version.reports_calls,
        dict(version.client),
    )
    return ClientProcess(name, (version.python, "-m", "tools.rollout.caller", orders.packed()), history)
