"""A server in this process, and comparisons that call each operator with its first case and dtype."""

from collections.abc import Iterator

import pytest

from aclgrad.check import target
from aclgrad.operators.cases import first_cases
from aclgrad.testing import serve


@pytest.fixture(scope="module")
def few() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "typed_cases", first_cases)
        patch.setattr(target, "CONNECT_TIMEOUT_S", 0.5)
        yield patch


@pytest.fixture(scope="module")
def address(few: pytest.MonkeyPatch) -> Iterator[str]:
    with serve() as server:
        yield server.target
