"""A server in this process, and a check that calls a few operators once or a few times."""

from collections.abc import Iterator

import pytest

from aclgrad.judge.check import repetition, service, target
from aclgrad.testing import serve
from tests.judge.checking import few_cases


@pytest.fixture(scope="module")
def few() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "typed_cases", few_cases)
        patch.setattr(target, "CONNECT_TIMEOUT_S", 0.5)
        patch.setattr(repetition, "_RUNS", 3)
        patch.setattr(service, "first_cases", few_cases)
        patch.setattr(service, "_QUICK_RUNS", 3)
        patch.setattr(service, "_MIXED_CALLS", 20)
        patch.setattr(service, "_IDLE_S", 0.2)
        yield patch


@pytest.fixture(scope="module")
def address(few: pytest.MonkeyPatch) -> Iterator[str]:
    with serve() as server:
        yield server.target
