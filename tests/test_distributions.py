"""Three distributions, one version."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"client": "aclgrad", "native": "aclgrad-native", "server": "aclgrad-server"}


def project(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(("folder", "name"), FOLDERS.items())
def test_distribution_has_its_name_and_the_version_of_all(folder: str, name: str) -> None:
    assert project(folder)["name"] == name
    assert project(folder)["version"] == project("client")["version"]


@pytest.mark.parametrize("folder", ["client", "native"])
def test_server_takes_exactly_its_own_version(folder: str) -> None:
    assert f"{FOLDERS[folder]}=={project('server')['version']}" in project("server")["dependencies"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_distributions_agree_on_python_and_license(folder: str) -> None:
    for key in ("requires-python", "license"):
        assert project(folder)[key] == project("client")[key]
