from collections.abc import Iterator

import pytest

import aclgrad
from tools.serving import Server


@pytest.fixture
def client(server: Server) -> Iterator[aclgrad.Client]:
    with aclgrad.Client(server.address) as client:
        yield client
