"""The images: what an edit builds again, any base and processor, and the tags of `make image`."""

import re
import shlex
import subprocess
from itertools import pairwise

import pytest

from tests.deploy.dockerfile import ROOT, TEXT, instructions

UBUNTU = "quay.io/ascend/cann:9.0.0-910-ubuntu22.04-py3.11"
OPEN_EULER = "quay.io/ascend/cann:9.0.0-910-openeuler24.03-py3.11"


def changed_by(path: str) -> list[str]:
    """Returns the commands of the builder that run again after an edit of this file of the checkout."""
    steps = instructions("builder")
    sources = [shlex.split(each.text)[:-1] if each.name == "COPY" else [] for each in steps]
    first = next(
        i for i, names in enumerate(sources) if any(path == each or path.startswith(f"{each}/") for each in names)
    )
    return [each.text for each in steps[first:] if each.name == "RUN"]


@pytest.mark.parametrize("path", ["client/src/aclgrad/errors.py", "server/src/aclgrad_server/cli.py", "proto/a.proto"])
def test_an_edit_of_python_compiles_nothing_and_installs_no_library(path: str) -> None:
    (command,) = changed_by(path)
    assert "./native" not in command
    assert "requirements.lock" not in command
    assert "./client ./server" in command


def test_an_edit_of_cpp_installs_no_library() -> None:
    native, python = changed_by("native/runtime/device.cpp")
    assert native.endswith("./native")
    assert python in changed_by("client/pyproject.toml")
    assert "requirements.lock" not in native


def test_a_new_lock_installs_no_compiler() -> None:
    libraries, *_ = changed_by("deploy/requirements.lock")
    assert "apt-get" not in libraries
    assert "--requirement requirements.lock" in libraries
    # What is copied is what a build sends: nothing else changes a layer.
    sent = {
        line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    copied = {name for each in instructions("builder") if each.name == "COPY" for name in shlex.split(each.text)[:-1]}
    assert copied == sent


def test_no_step_is_for_one_processor_or_one_distribution() -> None:
    assert not re.search(r"amd64|x86|arm64|aarch64", TEXT)
    for each in instructions("builder") + instructions("runtime"):
        if "apt-get" in each.text:
            assert re.match(r"if command -v apt-get; then .*; +else +dnf .*; +fi$", each.text)
        # openEuler's images may lack them.
        assert not re.search(r"\b(useradd|groupadd|adduser|addgroup)\b", each.text)


@pytest.mark.parametrize(
    ("base", "variant"), [("", "host"), (UBUNTU, "ascend-ubuntu"), (OPEN_EULER, "ascend-openeuler")]
)
def test_tags_name_version_and_variant(variant: str, base: str) -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "server/pyproject.toml").read_text(), re.MULTILINE)
    assert version
    words = build(*(f"IMAGE=ascend BASE={base}".split() if base else ()))
    target = variant.partition("-")[0]
    assert words[words.index("--target") + 1] == target
    assert values(words, "--tag") == [f"aclgrad:{target}", f"aclgrad:{version[1]}-{variant}"]
    assert ([f"BASE={base}"] if base else []) == [
        each for each in values(words, "--build-arg") if each.startswith("BASE=")
    ]
    assert "--platform" not in words
    assert words[-1] == "."


def test_another_processor_and_a_digest() -> None:
    words = build("PLATFORM=linux/arm64", f"BASE=python:3.11@sha256:{'0' * 64}")
    assert values(words, "--platform") == ["linux/arm64"]
    assert values(words, "--label") == [f"org.opencontainers.image.base.digest=sha256:{'0' * 64}"]


@pytest.mark.parametrize(
    ("remote", "source"),
    [
        ("https://user:secret@git.example/team/aclgrad.git", "https://git.example/team/aclgrad"),
        ("git@git.example:team/aclgrad.git", "https://git.example/team/aclgrad"),
        ("https://git.example/team/aclgrad", "https://git.example/team/aclgrad"),
    ],
)
def test_the_source_is_an_address_without_a_password(remote: str, source: str) -> None:
    (sed,) = re.findall(r"remote\.origin\.url \| (sed -E '.*?')", (ROOT / "Makefile").read_text())
    command = shlex.split(sed.replace("$$", "$"))
    assert subprocess.run(command, input=remote, capture_output=True, text=True, check=True).stdout.strip() == source


def build(*settings: str) -> list[str]:
    """Returns the words of the command that `make image` runs."""
    command = ["make", "--dry-run", "--no-print-directory", "image", *settings]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.startswith("docker build ")
    return shlex.split(told)


def values(words: list[str], flag: str) -> list[str]:
    return [value for name, value in pairwise(words) if name == flag]
