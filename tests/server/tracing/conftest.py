"""A service that chooses every call, unless its client does not."""

from collections.abc import AsyncIterator

import pytest

from aclgrad_server.tracing.sampling import Sampling

from .traced_service import TracedService


@pytest.fixture
async def service() -> AsyncIterator[TracedService]:
    async with TracedService(Sampling.of({})) as service:
        yield service
