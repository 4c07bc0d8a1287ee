"""Both clients: settings from the environment."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import aclgrad
from aclgrad._client.settings.credentials import VARIABLES as CREDENTIALS
from aclgrad._client.settings.environment import VARIABLES
from aclgrad.commands import program
from aclgrad.testing import TestServer
from tools.calling import maybe_await

PAGE = Path(__file__).parents[2] / "docs/command-line.md"
both = pytest.mark.parametrize("kind", [aclgrad.Client, aclgrad.AsyncClient])
GIVEN = {
    "ACLGRAD_TARGET": "unix:/run/aclgrad.sock",
    "ACLGRAD_TIMEOUT_S": "2.5",
    "ACLGRAD_CONNECT_TIMEOUT_S": "0",
    "ACLGRAD_RETRIES": "1",
    "ACLGRAD_MAX_MESSAGE_BYTES": "1000000",
    "ACLGRAD_SHARED_MEMORY": "on",
}
WRONG = {
    "ACLGRAD_TARGET": ["localhost", "http://x:1"],
    "ACLGRAD_TIMEOUT_S": ["soon", "nan"],
    "ACLGRAD_CONNECT_TIMEOUT_S": ["-1", "none"],
    "ACLGRAD_RETRIES": ["-1", "1.5", "none"],
    "ACLGRAD_MAX_MESSAGE_BYTES": ["0", "16M"],
    "ACLGRAD_SHARED_MEMORY": ["2", "maybe"],
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)


@both
def test_each_variable_gives_its_setting(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert GIVEN.keys() == {variable.name for variable in VARIABLES}
    assert repr(kind.from_env()) == repr(kind())
    for name, text in GIVEN.items():
        monkeypatch.setenv(name, text)
    client = kind.from_env()
    assert (client.target, client.timeout_s) == ("unix:/run/aclgrad.sock", 2.5)
    assert (client._retry_policy.connect_timeout_s, client._retry_policy.retries) == (0.0, 1)  # noqa: SLF001
    assert client._requirements.message_bytes == 1_000_000  # noqa: SLF001
    assert client._regions is not None  # noqa: SLF001
    assert kind.from_env(target="other:1").target == kind.from_env("other:1").target == "other:1"
    monkeypatch.setenv("ACLGRAD_TIMEOUT_S", "none")
    assert kind.from_env().timeout_s is None
    monkeypatch.setenv("ACLGRAD_TARGET", " ")
    assert kind.from_env().target == kind().target


@both
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_names_its_variable(kind: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in WRONG[name]:
        monkeypatch.setenv(name, text)
        with pytest.raises(aclgrad.InvalidSettingError, match=rf"^{name}\b.*{text}.*; give ") as caught:
            kind.from_env()
        assert caught.value.field == name
        # What is given in code goes before, and is named itself if it is wrong.
        setting = next(each.setting for each in VARIABLES if each.name == name)
        if setting == "retries":
            assert kind.from_env(retries=2)
            with pytest.raises(aclgrad.InvalidSettingError, match=r"^retries is -3"):
                kind.from_env(retries=-3)


@both
async def test_such_a_client_calls(kind: Any, server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLGRAD_TARGET", server.target)
    client = kind.from_env(retries=0)
    assert await maybe_await(client.list_operators())
    await maybe_await(client.close())


def test_the_page_and_the_help_of_the_command_line_have_the_variables_of_tls() -> None:
    for text in (PAGE.read_text(), CliRunner().invoke(program, ["--help"]).output):
        assert [name for name in CREDENTIALS if not re.search(rf"\b{name}\b", text)] == []
