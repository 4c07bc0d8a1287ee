"""Three distributions, one version."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"client": "aclgrad", "native": "aclgrad-native", "server": "aclgrad-server"}


def project(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]


def test_distributions_agree_on_version_python_and_license() -> None:
    for folder, name in FOLDERS.items():
        assert project(folder)["name"] == name
        for key in ("version", "requires-python", "license"):
            assert project(folder)[key] == project("client")[key]


def test_server_takes_exactly_its_own_version() -> None:
    server = project("server")
    for folder in ("client", "native"):
        assert f"{FOLDERS[folder]}=={server['version']}" in server["dependencies"]


def test_the_extra_server_is_the_server_of_this_version() -> None:
    client, server = project("client"), project("server")
    assert client["optional-dependencies"]["server"] == [f"{server['name']}=={server['version']}"]
