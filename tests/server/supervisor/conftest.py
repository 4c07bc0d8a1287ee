"""Workers with made-up processes, and without any."""

import sys
from pathlib import Path

import pytest

from aclgrad_server.supervisor import supervisor, worker
from tests.server.supervisor import made_up_worker
from tests.server.supervisor.hosts import FakeWorker
from tests.server.supervisor.lives import Lives, shorten


@pytest.fixture
def lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lives:
    """Looks come quickly; limits and pauses are as they are unless a test shortens them."""
    shorten(monkeypatch, LOOK_INTERVAL_S=0.01, START_INTERVAL_S=0.005)
    # Isolated and without site-packages: it starts in a hundredth of a second.
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-I", "-S", made_up_worker.__file__, str(tmp_path)))
    return Lives(tmp_path)


@pytest.fixture
def fake_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts have workers without processes."""
    monkeypatch.setattr(supervisor, "Worker", FakeWorker)
