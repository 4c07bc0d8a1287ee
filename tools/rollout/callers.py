"""The processes of clients of a run, and the questions that they ask."""

import pickle
import random
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from aclgrad.operators.cases import typed_cases
from tools.benchmarks.sizes import OPERATOR
from tools.calling import wait_until
from tools.gradients import PRODUCT, Known, of_size
from tools.released import ROOT
from tools.rollout.caller import Orders
from tools.rollout.versions import Version
from tools.serving import clean_environment

DTYPE: Final = "float32"
CASES: Final = 16
SMALL_ELEMENTS: Final = 2**14
HUGE: Final = (5, 64, 96, 96)
"""11.8 MB, which go in chunks by themselves."""
CALLERS: Final = 3
PAUSE_S: Final = 0.06
DEADLINE_S: Final = 10.0
_START_S: Final = 60.0
_END_S: Final = 30.0


def write_questions(path: Path, operators: set[str]) -> None:
    """Writes calls of these operators, by the method that sends them, with their gradients by the definition."""
    cases = [each for each in typed_cases(PRODUCT) if each.dtype == DTYPE and each.spec.name in operators]
    small = [each for each in cases if max(map(np.prod, each.case.shapes.values())) <= SMALL_ELEMENTS]
    few = [Known.of_case(each) for each in random.Random(0).sample(small, min(len(small), CASES))]
    grad_output = np.random.default_rng(0).standard_normal((*HUGE[:2], 7, 5)).astype(np.float32)
    huge = Known.of(OPERATOR, {"grad_output": grad_output, "self": HUGE}, {}, DTYPE)
    asked = {"unary": few, "batch": few, "large": [of_size("1 MB")], "chunked": [huge]}
    path.write_bytes(pickle.dumps({method: [_packed(each) for each in known] for method, known in asked.items()}))


def _packed(known: Known) -> tuple[Any, ...]:
    allowed = [known.tolerance.limit(truth) for truth in known.truths]
    return known.operator, dict(known.inputs), dict(known.attributes), list(known.truths), allowed


class Clients:
    """Runs both kinds of client of each version, from `with` to the end of the block."""

    def __init__(self, versions: Sequence[Version], target: str, questions: Path, folder: Path) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # The first of those that are the same.
        self._versions = {version.python: version for version in reversed(versions)}
        self._target, self._questions, self._folder = target, questions, folder
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        for version in self._versions.values():
            for style in ("threads", "tasks"):
                self._start(version, style)
        try:
            for name in self._processes:
                wait_until(partial(self._has_answers, name), _START_S, 0.1)
        except BaseException:
            self._kill()
            raise
        return self

    def _start(self, version: Version, style: str) -> None:
        name = f"{version.name}-{style}"
        orders = Orders(
            name,
            style,
            self._target,
            CALLERS,
            PAUSE_S,
            DEADLINE_S,
            str(self._questions),
            str(self._history(name)),
            version.reports_calls,
            dict(version.client),
        )
        words = [version.python, "-m", "tools.rollout.caller", orders.packed()]
        self._processes[name] = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, env=clean_environment())

    def _history(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl"

    def _has_answers(self, name: str) -> bool:
        code = self._processes[name].poll()
        assert code is None, f"the clients {name} ended with {code} at their start"
        path = self._history(name)
        return path.exists() and '"right"' in path.read_text()

    def _kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for name, process in self._processes.items():
            try:
                code = process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if code:
                self.failures.append(f"the clients {name} ended with {code}")
