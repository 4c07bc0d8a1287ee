"""Settings come from flags, the environment, a file and defaults, in that order."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from aclgrad._credentials import VARIABLES as CREDENTIALS
from aclgrad._environment import VARIABLES
from aclgrad_server.settings import Settings, changed_settings, unknown_variables


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"ACLGRAD_{name.upper()}", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "aclgrad.toml"
    path.write_text('listen = ["127.0.0.1:1", "unix:/run/file"]\nstreams = 2\nmax_waiting_calls = 2\npool_bytes = 2\n')
    return path


def test_defaults_serve_this_machine_alone() -> None:
    settings = Settings()
    assert settings.listen == ("127.0.0.1:50051",)
    assert settings.admin == "127.0.0.1:9464"
    assert settings.backend == "auto"
    assert settings.device == ()
    assert settings.pool_bytes is None
    assert settings.max_call_bytes is None
    assert settings.memory_limit_bytes is None


def test_flags_go_before_variables_before_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLGRAD_STREAMS", "3")
    monkeypatch.setenv("ACLGRAD_MAX_WAITING_CALLS", "3")
    settings = Settings(config=str(file), max_waiting_calls="4")
    assert (settings.max_waiting_calls, settings.streams, settings.pool_bytes) == (4, 3, 2)
    assert settings.max_message_bytes == Settings().max_message_bytes
    assert settings.listen == ("127.0.0.1:1", "unix:/run/file")


def test_variable_names_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLGRAD_CONFIG", str(file))
    assert Settings().streams == 2


def test_flag_for_the_file_goes_before_the_variable(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.toml"
    other.write_text("streams = 7\n")
    monkeypatch.setenv("ACLGRAD_CONFIG", str(file))
    assert Settings(config=str(other)).streams == 7


def test_lists_in_variables_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLGRAD_LISTEN", "127.0.0.1:0, unix:/run/aclgrad.socket")
    monkeypatch.setenv("ACLGRAD_DEVICE", "1,0")
    settings = Settings()
    assert settings.listen == ("127.0.0.1:0", "unix:/run/aclgrad.socket")
    assert settings.device == (1, 0)


def test_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLGRAD_STREAMS", "")
    assert Settings().streams == Settings.model_fields["streams"].default


@pytest.mark.parametrize("address", ["0.0.0.0:9464", "[::1]:0", "localhost:9464", "off"])
def test_address_of_the_admin_listener(address: str) -> None:
    assert Settings(admin=address).admin == address


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("listen", ()),
        ("listen", ("localhost",)),
        ("listen", ("127.0.0.1:",)),
        ("listen", (":50051",)),
        ("listen", ("127.0.0.1:65536",)),
        ("listen", ("127.0.0.1:0", "127.0.0.1:-1")),
        ("listen", ("unix:",)),
        ("listen", ("::1:50051",)),
        ("admin", "localhost"),
        ("admin", "127.0.0.1:"),
        ("admin", ":9464"),
        ("admin", "::1:9464"),
        ("admin", "[::1]"),
        ("admin", "127.0.0.1:65536"),
        ("admin", "127.0.0.1:\u00b2"),
        ("admin", "unix:/run/admin"),
        ("admin", ""),
        ("device", ("first",)),
        ("streams", 0),
        ("streams", "many"),
        ("streams", 1025),
        ("pool_bytes", 2**48 + 1),
        ("pool_keep_bytes", 2**64),
        ("max_tensor_bytes", 2**64),
        ("max_waiting_calls", -1),
        ("pool_bytes", 0),
        ("max_message_bytes", 2**31),
        ("max_call_bytes", 0),
        ("max_call_bytes", 2**48 + 1),
        ("memory_limit_bytes", 0),
        ("memory_limit_bytes", 2**48 + 1),
        ("client_timeout_s", 0),
        ("max_tensor_bytes", 1.5),
        ("shape_only", "maybe"),
        ("reply_compression", "zip"),
        ("max_connection_age_s", 0),
        ("call_timeout_s", 0),
        ("drain_timeout_s", -1),
        ("log_level", "loud"),
        ("speed", 1),
    ],
)
def test_bad_value_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**{setting: value})
    assert {error["loc"][0] for error in caught.value.errors()} == {setting}


def test_bad_variable_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLGRAD_STREAMS", "many")
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert [error["loc"] for error in caught.value.errors()] == [("streams",)]


def test_unknown_key_in_the_file_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "aclgrad.toml"
    file.write_text("stream = 2\n")
    with pytest.raises(ValidationError) as caught:
        Settings(config=file)
    assert [error["loc"] for error in caught.value.errors()] == [("stream",)]


def test_variables_of_clients_are_no_typing_errors() -> None:
    of_clients = {*(each.name for each in VARIABLES), *CREDENTIALS}
    assert unknown_variables(dict.fromkeys([*of_clients, "ACLGRAD_LISTENS"], "x")) == ["ACLGRAD_LISTENS"]


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().streams = 2


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description and field.description.endswith(".") for field in Settings.model_fields.values())


def test_settings_that_tell_of_the_machine_are_private() -> None:
    private = {name for name, field in Settings.model_fields.items() if field.json_schema_extra}
    paths = {name for name, field in Settings.model_fields.items() if "Path" in str(field.annotation)}
    others = {"listen", "admin", "backend", "unix_socket_group", "shared_memory_prefix", "shared_memory_owner"}
    assert private == paths | others


def test_changed_settings_are_text() -> None:
    settings = Settings(listen=("127.0.0.1:1", "unix:/a"), streams=8, shared_memory=True, admin="127.0.0.1:9464")
    public = {"streams": "8", "shared_memory": "true"}
    assert changed_settings(settings, with_private=False) == public
    assert changed_settings(settings, with_private=True) == {"listen": "127.0.0.1:1 unix:/a"} | public
