"""The client of the bridge's tests, and random numbers that are alike in any order."""

import pytest

from tests.judge.torch.running import GENERATOR
from tests.torch.conftest import RecordingClient, _alike_in_any_order, _client, _one_thread, client

__all__ = ["RecordingClient", "_alike_in_any_order", "_client", "_one_thread", "client"]


@pytest.fixture(autouse=True)
def _same_dumps() -> None:
    GENERATOR.manual_seed(3)
