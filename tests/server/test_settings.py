"""Settings come from flags, the environment, a file and defaults, in that order."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import aclgrad
from aclgrad_server.settings import PRIVATE, Settings, changed_settings, read_settings, unknown_variables


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
    settings = read_settings({"config": str(file), "max_waiting_calls": "4"})
    assert (settings.max_waiting_calls, settings.streams, settings.pool_bytes) == (4, 3, 2)
    assert settings.max_message_bytes == Settings().max_message_bytes
    assert settings.listen == ("127.0.0.1:1", "unix:/run/file")


def test_flag_or_variable_names_the_file(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (other := tmp_path / "other.toml").write_text("streams = 7\n")
    monkeypatch.setenv("ACLGRAD_CONFIG", str(file))
    assert read_settings({}).streams == 2
    assert read_settings({"config": str(other)}).streams == 7


def test_lists_in_variables_are_separated_by_commas_and_an_empty_one_is_not_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("LISTEN", "127.0.0.1:0, unix:/run/aclgrad.socket"), ("DEVICE", "1,0"), ("STREAMS", "")):
        monkeypatch.setenv(f"ACLGRAD_{name}", value)
    settings = read_settings({})
    assert settings.listen == ("127.0.0.1:0", "unix:/run/aclgrad.socket")
    assert settings.device == (1, 0)
    assert settings.streams == Settings.model_fields["streams"].default


SIZES = {
    "300000000": 300_000_000,
    "300M": 300_000_000,
    "300 mb": 300_000_000,
    "64k": 64_000,
    "64Ki": 65_536,
    "64kib": 65_536,
    "2GiB": 2_147_483_648,
    "1.5G": 1_500_000_000,
    "12B": 12,
    "256TiB": 281_474_976_710_656,
}
NO_SIZES = ["0", "0.1", "1.5", "-5k", "1e9", "inf", "nan", "", "k", "2i", "8bit", "1_000", "300,000", "5-3", "1.5.5M"]
NO_SIZES += ["257TiB", "1PB", "9" * 400 + "G", "\u0663"]


@pytest.mark.parametrize("setting", [name for name in Settings.model_fields if name.endswith("_bytes")])
def test_sizes_have_units(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "aclgrad.toml"
    most = 16 * 2**20 if setting == "max_message_bytes" else 2**48
    for text, size in SIZES.items():
        if size <= most:
            file.write_text(f'{setting} = "{text}"\n')
            with monkeypatch.context() as patch:
                patch.setenv(f"ACLGRAD_{setting.upper()}", text)
                found = [Settings(**{setting: text}), *map(read_settings, ({}, {"config": str(file)}))]
            assert [getattr(each, setting) for each in found] == [size] * 3
    for text in NO_SIZES:
        with pytest.raises(ValidationError):
            Settings(**{setting: text})


def test_sizes_are_shown_as_they_may_be_written() -> None:
    sizes = {"300000000": "300MB", "2147483648": "2GiB", "16384000": "16384kB", "1234567": "1234567"}
    for given, shown in sizes.items():
        assert changed_settings(Settings(pool_bytes=given)) == {"pool_bytes": shown}
        assert Settings(pool_bytes=shown).pool_bytes == int(given)


@pytest.mark.parametrize("address", ["0.0.0.0:9464", "[::1]:0", "localhost:9464", "off"])
def test_address_of_the_admin_listener(address: str) -> None:
    assert Settings(admin=address).admin == address


BAD: dict[str, list[Any]] = {
    "listen": [
        *((), ("localhost",), ("127.0.0.1:",), (":50051",), ("127.0.0.1:65536",), ("127.0.0.1:0", "127.0.0.1:-1")),
        *(("unix:",), ("::1:50051",)),
    ],
    "admin": [
        *("localhost", "127.0.0.1:", ":9464", "::1:9464", "[::1]", "127.0.0.1:65536", "127.0.0.1:\u00b2"),
        *("unix:/run/admin", ""),
    ],
    "streams": [1025],
    "pool_bytes": [0, 2**48 + 1],
    "max_tensor_bytes": [1.5, 2**64],
    "max_waiting_calls": [-1],
    "max_message_bytes": [2**31],
    "client_timeout_s": [0],
    "drain_timeout_s": [-1],
    "speed": [1],
}


@pytest.mark.parametrize(("setting", "values"), BAD.items(), ids=BAD)
def test_bad_value_is_refused_by_name(setting: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ValidationError) as caught:
            Settings(**{setting: value})
        assert {error["loc"][0] for error in caught.value.errors()} == {setting}, value


def test_variables_of_clients_are_no_typing_errors() -> None:
    of_clients = set(re.findall(r"ACLGRAD_[A-Z_]+", aclgrad.Client.from_env.__doc__ or ""))
    assert len(of_clients) > 10
    assert unknown_variables(dict.fromkeys([*of_clients, "ACLGRAD_LISTENS"], "x")) == ["ACLGRAD_LISTENS"]


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().streams = 2


def test_every_setting_says_what_it_is_and_free_text_and_paths_are_private() -> None:
    """They may tell of the machine: addresses, folders, groups."""
    for name, field in Settings.model_fields.items():
        assert field.description
        assert field.description.endswith(".")
        told = str(field.annotation)
        is_free = "Path" in told or "str" in told.replace("Literal", "").split("[")[0] or "tuple[str" in told
        assert PRIVATE in field.metadata or not is_free, name


def test_changed_settings_are_text() -> None:
    settings = Settings(listen=("127.0.0.1:1", "unix:/a"), streams=8, shared_memory=True, admin="127.0.0.1:9464")
    public = {"streams": "8", "shared_memory": "true"}
    assert changed_settings(settings, with_private=False) == public
    assert changed_settings(settings, with_private=True) == {"listen": "127.0.0.1:1 unix:/a"} | public
