"""One cluster for all tests, because one takes seconds to start."""

from collections.abc import Iterator

import pytest

import aclgrad.ray

from .clusters import TwoNodes, two_nodes


@pytest.fixture(scope="session")
def cluster() -> Iterator[TwoNodes]:
    with two_nodes() as nodes:
        yield nodes


@pytest.fixture
def nodes(cluster: TwoNodes) -> Iterator[TwoNodes]:
    """Two nodes that live, with nothing deployed before and after."""
    cluster.make_whole()
    yield cluster
    try:
        aclgrad.ray.stop()
    except aclgrad.ray.DeploymentError as error:
        assert "nothing is deployed" in str(error)  # noqa: PT017 - or a test has stopped it
