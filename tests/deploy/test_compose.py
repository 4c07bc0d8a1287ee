"""Compose and Dockerfile say the same, and what they start listens where everybody can see it."""

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from aclgrad_server.cli import main
from aclgrad_server.exits import EXIT_LIMIT_S
from aclgrad_server.listen_addresses import is_local
from aclgrad_server.settings import Settings, read_settings
from aclgrad_server.supervisor.worker import KILL_S

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
SERVICES = {name: COMPOSE[name] for name in ("host", "ascend")}
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def stage(name: str) -> str:
    """Returns the instructions of a target of the Dockerfile."""
    found = re.search(rf"^FROM runtime AS {name}$(.*?)(?=^FROM|\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize(("name", "service"), SERVICES.items())
def test_profile_starts_one_server_of_its_own_target(name: str, service: dict[str, Any]) -> None:
    assert service["profiles"] == [name]
    assert service["build"]["target"] == name
    assert service["image"] == f"aclgrad:{name}"
    assert f'ENTRYPOINT ["aclgrad-server", "--backend", "{name}"]' in stage(name)


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_address_is_in_plain_sight_and_published_for_this_machine_alone(service: dict[str, Any]) -> None:
    with click.Context(main) as context:
        main.parse_args(context, list(service["command"]))
        (address,) = read_settings(context.params).listen
    assert not is_local(address)
    for port in service["ports"]:
        published, _, inside = port.rpartition(":")
        assert is_local(published)
        assert address.endswith(f":{inside}")


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_container_has_no_rights_and_time_to_drain(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    # A supervisor makes a folder for its sockets.
    assert any(each.startswith("/tmp:") for each in service["tmpfs"])
    assert service["cap_drop"] == ["ALL"]
    assert "privileged" not in service
    needed_s = Settings.model_fields["drain_timeout_s"].default + EXIT_LIMIT_S + KILL_S
    assert int(service["stop_grace_period"].removesuffix("s")) >= needed_s + 5


def test_default_target_is_the_host_and_listens_nowhere_by_itself() -> None:
    assert re.findall(r"^FROM .* AS (\w+)$", DOCKERFILE, re.MULTILINE)[-1] == "host"
    instructions = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    assert not any("--listen" in line or "ACLGRAD_LISTEN" in line for line in instructions)


def test_health_check_asks_the_admin_listener_where_the_services_have_it() -> None:
    assert re.search(r'^HEALTHCHECK .* CMD \["aclgrad-server", "probe"\]$', DOCKERFILE, re.MULTILINE)
    assert re.search(r"^EXPOSE 50051 9464$", DOCKERFILE, re.MULTILINE)
    for service in SERVICES.values():
        # A variable, which the check takes too; a flag of the server would be unknown to it.
        assert "--admin" not in service["command"]
        assert service["environment"]["ACLGRAD_ADMIN"].rpartition(":")[2] == "9464"
        assert "healthcheck" not in service
        assert not any("9464" in port for port in service["ports"])
    assert Settings.model_fields["admin"].default == "127.0.0.1:9464"


def test_log_of_cann_has_room_and_a_cap() -> None:
    """In the folder that the image names, which the user of the container may write to."""
    variables = dict(re.findall(r"^(?:ENV|   ) (ASCEND_\w+)=(\S+)", stage("ascend"), re.MULTILINE))
    assert variables["ASCEND_COREDUMP_SIGNAL"] == "none"
    assert int(variables["ASCEND_HOST_LOG_FILE_NUM"]) * 20e6 < 100e6
    folder = variables["ASCEND_WORK_PATH"]
    assert variables["ASCEND_PROCESS_LOG_PATH"].startswith(f"{folder}/")
    assert f"{folder}:size=1g" in SERVICES["ascend"]["tmpfs"]
    assert set(SERVICES["host"]["tmpfs"]) < set(SERVICES["ascend"]["tmpfs"])
    patch = yaml.safe_load((ROOT / "deploy/kubernetes/components/ascend/deployment.yaml").read_text())
    spec = patch["spec"]["template"]["spec"]
    (volume,) = (each["name"] for each in spec["volumes"] if each.get("emptyDir") == {"sizeLimit": "1Gi"})
    assert {"name": volume, "mountPath": folder} in spec["containers"][0]["volumeMounts"]


def test_a_container_with_a_card_may_pin_memory_and_writes_to_its_working_directory() -> None:
    assert SERVICES["ascend"]["ulimits"] == {"memlock": -1}
    runtime = DOCKERFILE.partition(" AS runtime")[2].partition("\nFROM ")[0]
    (folder,) = re.findall(r"^WORKDIR (\S+)$", runtime, re.MULTILINE)
    for service in SERVICES.values():
        assert "working_dir" not in service
        assert any(each.startswith(f"{folder}:") for each in service["tmpfs"])
    base = yaml.safe_load((ROOT / "deploy/kubernetes/base/deployment.yaml").read_text())["spec"]["template"]["spec"]
    assert "workingDir" not in base["containers"][0]
    assert folder in [each["mountPath"] for each in base["containers"][0]["volumeMounts"]]


def test_no_deployment_sets_what_cann_is_to_have_unset() -> None:
    files = [ROOT / "Dockerfile", *(each for each in (ROOT / "deploy").rglob("*") if each.suffix != ".md")]
    texts = "".join(each.read_text() for each in files if each.is_file())
    assert "ASCEND_PROCESS_LOG_PATH" in texts
    assert not re.search("ASCEND_LAUNCH_BLOCKING|ACL_OP_INIT_MODE", texts)
