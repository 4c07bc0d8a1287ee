"""The images: what a build copies, any base and processor, and the tags of `make image`."""

import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
UBUNTU = "quay.io/ascend/cann:9.0.0-910-ubuntu22.04-py3.11"
OPEN_EULER = "quay.io/ascend/cann:9.0.0-910-openeuler24.03-py3.11"


class Instruction(NamedTuple):
    """One instruction, its continued lines joined."""

    name: str
    text: str


def instructions(stage: str) -> list[Instruction]:
    """Returns the instructions of a stage, without its FROM."""
    (found,) = re.findall(rf"^FROM \S+ AS {stage}$(.*?)(?=^FROM|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line for line in found.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [Instruction(*line.split(" ", 1)) for line in joined.splitlines()]


def test_what_is_copied_is_what_a_build_sends() -> None:
    """Nothing else changes a layer, and a new lock installs no compiler."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {name for each in instructions("builder") if each.name == "COPY" for name in shlex.split(each.text)[:-1]}
    assert copied == sent
    (libraries,) = (each.text for each in instructions("builder") if "--requirement requirements.lock" in each.text)
    assert "apt-get" not in libraries


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
