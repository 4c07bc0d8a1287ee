"""Images, Compose and locks: they say the same, and what they start listens where everybody can see it."""

import re
import runpy
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aclgrad_server.cli import main
from aclgrad_server.exits import EXIT_LIMIT_S
from aclgrad_server.listen_addresses import is_local
from aclgrad_server.settings import Settings, read_settings
from aclgrad_server.supervisor.worker import KILL_S

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
SERVICES = {name: COMPOSE[name] for name in ("host", "ascend")}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OPEN_EULER = "quay.io/ascend/cann:9.0.0-910-openeuler24.03-py3.11"
LOCK = (ROOT / "deploy/requirements.lock").read_text()
OF_DEVELOPERS = (ROOT / "requirements.lock").read_text()


def stage(name: str) -> str:
    """Returns the instructions of a target of the Dockerfile, continued lines joined."""
    (found,) = re.findall(rf"^FROM \S+ AS {name}$(.*?)(?=^FROM|\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL)
    lines = [line for line in found.splitlines() if line and not line.startswith("#")]
    return re.sub(r"\\\n\s*", " ", "\n".join(lines))


@pytest.mark.parametrize(("name", "service"), SERVICES.items())
def test_a_service_starts_one_server_of_its_target_for_this_machine_and_has_time_to_drain(
    name: str, service: dict[str, Any]
) -> None:
    assert service["build"]["target"] == name
    assert service["image"] == f"aclgrad:{name}"
    assert f'ENTRYPOINT ["aclgrad-server", "--backend", "{name}"]' in stage(name)
    with click.Context(main) as context:
        main.parse_args(context, list(service["command"]))
        (address,) = read_settings(context.params).listen
    assert not is_local(address)
    for port in service["ports"]:
        published, _, inside = port.rpartition(":")
        assert is_local(published)
        assert address.endswith(f":{inside}")
    # The health check asks the admin listener by a variable, which it takes too; a flag would be unknown to it.
    assert "--admin" not in service["command"]
    assert service["environment"]["ACLGRAD_ADMIN"].rpartition(":")[2] == "9464"
    assert Settings.model_fields["admin"].default == "127.0.0.1:9464"
    # A supervisor makes a folder for its sockets, and a server writes to its working directory.
    (folder,) = re.findall(r"^WORKDIR (\S+)$", stage("runtime"), re.MULTILINE)
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert all(any(each.startswith(f"{needed}:") for each in service["tmpfs"]) for needed in ("/tmp", folder))
    needed_s = Settings.model_fields["drain_timeout_s"].default + EXIT_LIMIT_S + KILL_S
    assert int(service["stop_grace_period"].removesuffix("s")) >= needed_s + 5


def test_an_image_listens_nowhere_by_itself_and_is_asked_for_its_health() -> None:
    assert re.search(r'^HEALTHCHECK .* CMD \["aclgrad-server", "probe"\]$', DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^FROM .* AS (\w+)$", DOCKERFILE, re.MULTILINE)[-1] == "host"
    instructions = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    assert not any("--listen" in line or "ACLGRAD_LISTEN" in line for line in instructions)


def test_a_card_may_pin_memory_and_its_log_has_room_and_a_cap() -> None:
    """In the folder that the image names, which the user of the container may write to."""
    assert SERVICES["ascend"]["ulimits"] == {"memlock": -1}
    variables = dict(re.findall(r"(ASCEND_\w+)=(\S+)", stage("ascend")))
    assert int(variables["ASCEND_HOST_LOG_FILE_NUM"]) * 20e6 < 100e6
    folder = variables["ASCEND_WORK_PATH"]
    assert variables["ASCEND_PROCESS_LOG_PATH"].startswith(f"{folder}/")
    assert f"{folder}:size=1g" in SERVICES["ascend"]["tmpfs"]
    patch = yaml.safe_load((ROOT / "deploy/kubernetes/components/ascend/deployment.yaml").read_text())
    spec = patch["spec"]["template"]["spec"]
    (volume,) = (each["name"] for each in spec["volumes"] if each.get("emptyDir") == {"sizeLimit": "1Gi"})
    assert {"name": volume, "mountPath": folder} in spec["containers"][0]["volumeMounts"]


def test_no_deployment_sets_what_cann_is_to_have_unset() -> None:
    files = [ROOT / "Dockerfile", *(each for each in (ROOT / "deploy").rglob("*") if each.suffix != ".md")]
    texts = "".join(each.read_text() for each in files if each.is_file())
    assert "ASCEND_PROCESS_LOG_PATH" in texts
    assert not re.search("ASCEND_LAUNCH_BLOCKING|ACL_OP_INIT_MODE", texts)


def test_what_is_copied_is_what_a_build_sends() -> None:
    """Nothing else changes a layer."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copies = re.findall(r"^COPY (.*)$", stage("builder"), re.MULTILINE)
    assert {name for each in copies for name in shlex.split(each)[:-1]} == sent


def test_no_step_is_for_one_processor_or_one_distribution() -> None:
    assert not re.search(r"amd64|x86|arm64|aarch64", DOCKERFILE)
    for line in (stage("builder") + stage("runtime")).splitlines():
        if "apt-get" in line:
            assert re.match(r"RUN if command -v apt-get; then .*; +else +dnf .*; +fi$", line)
        # openEuler's images may lack them.
        assert not re.search(r"\b(useradd|groupadd|adduser|addgroup)\b", line)


@pytest.mark.parametrize(
    ("settings", "target", "variant"),
    [
        ([], "host", "host"),
        (["IMAGE=ascend", f"BASE={OPEN_EULER}"], "ascend", "ascend-openeuler"),
        (["PLATFORM=linux/arm64", f"BASE=python:3.11@sha256:{'0' * 64}"], "host", "host"),
    ],
)
def test_make_image_names_version_and_variant(settings: list[str], target: str, variant: str) -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "server/pyproject.toml").read_text(), re.MULTILINE)
    assert version
    command = ["make", "--dry-run", "--no-print-directory", "image", *settings]
    words = shlex.split(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert (words[:2], words[-1]) == (["docker", "build"], ".")
    values = {flag: [value for name, value in pairwise(words) if name == flag] for flag in words}
    assert values["--target"] == [target]
    assert values["--tag"] == [f"aclgrad:{target}", f"aclgrad:{version[1]}-{variant}"]
    bases = [each for each in settings if each.startswith("BASE=")]
    assert [each for each in values.get("--build-arg", ()) if each.startswith("BASE=")] == bases
    if "PLATFORM=linux/arm64" in settings:
        assert values["--platform"] == ["linux/arm64"]
        assert values["--label"] == [f"org.opencontainers.image.base.digest=sha256:{'0' * 64}"]
    else:
        assert "--platform" not in words


@pytest.mark.parametrize(
    ("remote", "source"),
    [
        ("https://user:secret@git.example/team/aclgrad.git", "https://git.example/team/aclgrad"),
        ("git@git.example:team/aclgrad.git", "https://git.example/team/aclgrad"),
    ],
)
def test_the_source_is_an_address_without_a_password(remote: str, source: str) -> None:
    (sed,) = re.findall(r"remote\.origin\.url \| (sed -E '.*?')", (ROOT / "Makefile").read_text())
    command = shlex.split(sed.replace("$$", "$"))
    assert subprocess.run(command, input=remote, capture_output=True, text=True, check=True).stdout.strip() == source


def pins(lock: str) -> dict[str, set[str]]:
    """Returns the versions of each package; there are several where they depend on the version of Python."""
    locked: dict[str, set[str]] = {}
    for line in lock.splitlines():
        if not line.startswith((" ", "#")):
            requirement = Requirement(line.removesuffix(" \\"))
            (specifier,) = requirement.specifier
            assert specifier.operator == "=="
            locked.setdefault(canonicalize_name(requirement.name), set()).add(specifier.version)
    return locked


@pytest.mark.parametrize(("function", "lock"), [("dependencies", LOCK), ("development_dependencies", OF_DEVELOPERS)])
def test_locks_have_what_is_asked_for(function: str, lock: str) -> None:
    """If it fails, run `make lock`."""
    locked = pins(lock)
    for needed in map(Requirement, runpy.run_path(str(ROOT / "deploy/dependencies.py"))[function]()):
        versions = locked[canonicalize_name(needed.name)]
        assert all(map(needed.specifier.contains, versions)), needed
    # Where packages come from is up to whoever builds.
    assert "://" not in lock


def test_the_image_has_the_versions_of_its_developers_and_a_hash_of_everything() -> None:
    known = pins(OF_DEVELOPERS)
    assert all(versions <= known[name] for name, versions in pins(LOCK).items())
    blocks = LOCK.split("\n")
    assert all(blocks[index + 1].startswith("    --hash=sha256:") for index, line in enumerate(blocks) if "==" in line)
    assert "--require-hashes --requirement requirements.lock" in DOCKERFILE
    assert DOCKERFILE.count("pip --python") == DOCKERFILE.count("--no-compile --no-deps") == 2
