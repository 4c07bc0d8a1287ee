"""Alerts, runbook, dashboard, Compose's Prometheus and the Kubernetes component fit each other and the servers."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from aclgrad_server.status.problems import REMEDIES

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/monitoring"
COMPONENT = ROOT / "deploy/kubernetes/components/monitoring"
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
PROMETHEUS = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
RULE_FIELDS = {"alert", "expr", "for", "labels", "annotations"}


def document(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_every_alert_has_a_severity_and_its_section_of_the_runbook() -> None:
    text = (ROOT / "docs/runbook.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == sorted(sections, key=[rule["alert"] for rule in RULES].index)
    assert len(RULES) == len(sections)
    assert {rule["alert"] for rule in RULES if "remedy" in rule["annotations"]} == REMEDIES.keys()
    for rule in RULES:
        assert rule.keys() <= RULE_FIELDS
        assert rule["labels"]["severity"] in ("critical", "warning")
        # A heading's anchor is its text in small letters.
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert {"summary", "description"} < rule["annotations"].keys()
        parts = re.findall(r"^\*\*(Look at|Do)\.\*\* ", sections[rule["alert"]], re.MULTILINE)
        assert parts == ["Look at", "Do"], rule["alert"]


def test_dashboard_has_panels_of_the_chosen_prometheus_servers_and_workers() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            assert 'instance=~"$instance"' in target["expr"] or "ALERTS" in target["expr"]
            for metric, labels in re.findall(r"\b(aclgrad_\w+|process_\w+)\{([^}]*)\}", target["expr"]):
                assert 'worker=~"$worker"' in labels, (panel["title"], metric)


def test_compose_scrapes_the_servers_and_mounts_what_is_there() -> None:
    (scrape,) = PROMETHEUS["scrape_configs"]
    assert scrape["job_name"] == "aclgrad"
    for name in ("host", "ascend"):
        assert COMPOSE[name]["networks"] == {"default": {"aliases": ["aclgrad"]}}
        ((target,),) = (group["targets"] for group in document(FOLDER / "compose-targets.yaml"))
        alias, port = target.split(":")
        assert alias == "aclgrad"
        assert COMPOSE[name]["environment"]["ACLGRAD_ADMIN"] == f"0.0.0.0:{port}"
    mounts = {}
    for name in ("prometheus", "grafana"):
        service = COMPOSE[name]
        assert service["profiles"] == ["monitoring"]
        assert re.fullmatch(r"[\w/]+:v?\d+\.\d+\.\d+", service["image"])
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for volume in service["volumes"]:
            source, target = volume.split(":")[:2]
            mounts[target] = source
            assert not source.startswith(".") or ((ROOT / "deploy" / source).is_file() and volume.endswith(":ro"))
    # Rules and targets lie beside the configuration, as in the repository.
    assert [mounts[f"/etc/prometheus/{rules}"] for rules in PROMETHEUS["rule_files"]] == ["./monitoring/alerts.yaml"]
    files = [file for each in scrape["file_sd_configs"] for file in each["files"]]
    assert [mounts[f"/etc/prometheus/{file}"] for file in files] == ["./monitoring/compose-targets.yaml"]
    assert all((FOLDER / file).is_file() for file in files)
    (provider,) = document(FOLDER / "grafana/dashboards.yaml")["providers"]
    dashboard = COMPOSE["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert dashboard in mounts
    assert str(Path(dashboard).parent) == provider["options"]["path"]
    (source,) = document(FOLDER / "grafana/datasource.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["jsonData"]["timeInterval"] == PROMETHEUS["global"]["scrape_interval"]


def test_component_of_kubernetes_finds_the_admin_port_of_every_pod() -> None:
    """The shapes are those of the Prometheus operator's documentation, as far as they are used."""
    service, monitor = document(COMPONENT / "service.yaml"), document(COMPONENT / "servicemonitor.yaml")
    pod = document(ROOT / "deploy/kubernetes/base/deployment.yaml")["spec"]["template"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    (port,) = service["spec"]["ports"]
    (container_port,) = (each for each in pod["spec"]["containers"][0]["ports"] if each["name"] == port["targetPort"])
    assert container_port["containerPort"] == port["port"]
    assert (monitor["apiVersion"], monitor["kind"]) == ("monitoring.coreos.com/v1", "ServiceMonitor")
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == PROMETHEUS["scrape_configs"][0]["job_name"]
    assert monitor["spec"]["selector"] == {"matchLabels": service["metadata"]["labels"]}
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == (port["name"], "/metrics")
