"""What a server does that cannot start a process for the first calls."""

import pytest

from aclgrad_server.devices import probing
from aclgrad_server.settings import Settings


async def test_without_a_child_nothing_is_probed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A guard that cannot run keeps no server from starting, and says so."""
    monkeypatch.setattr(probing, "COMMAND", ("/nowhere/python",))
    assert await probing.probe(Settings(), 1) is None
    assert "nothing is probed, because no process can be started: " in caplog.text
