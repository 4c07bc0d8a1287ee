"""The sample program trains to the same losses locally and remotely."""

import pytest

import aclgrad
from examples import train_cnn
from tools.serving import Server

from .conftest import RecordingClient


def test_fifty_steps_have_the_losses_of_local_training(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RecordingClient(server.address) as client:
        monkeypatch.setattr(aclgrad, "Client", lambda _: client)
        assert train_cnn.main(server.address) == 0
    assert len(client.called) == 7 * train_cnn.STEPS
    assert len(set(client.called)) == 6
    assert "largest difference in 50 steps" in capsys.readouterr().out
