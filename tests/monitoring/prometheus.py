"""Prometheus and promtool of Debian's package, on the project's own configuration and rules."""

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOYED: Final = ROOT / "deploy/monitoring"
ALERTS: Final = DEPLOYED / "alerts.yaml"
BINARIES: Final = ROOT / "build/prometheus/usr/bin"
INSTANCE: Final = "server"
TIMEOUT_S: Final = 60.0
INTERVAL_S: Final = 0.1
_LISTENING: Final = re.compile(r'msg="Listening on" address=(\S+)')
_READY: Final = "Server is ready to receive web requests"


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BINARIES / "promtool", *arguments], input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def write_config(folder: Path, admin: str) -> Path:
    """Writes the configuration of deploy/ with this server as its target, and the rules with seconds for minutes."""
    config = yaml.safe_load((DEPLOYED / "prometheus.yml").read_text())
    # A scrape may take as long as the interval, and a supervisor waits a second for a worker.
    config["global"] = {"scrape_interval": "2s", "evaluation_interval": "1s"}
    (folder / "targets.yaml").write_text(yaml.safe_dump([{"targets": [admin], "labels": {"instance": INSTANCE}}]))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    quick = re.sub(r"^( *for: \d+)m$", r"\1s", ALERTS.read_text(), flags=re.MULTILINE)
    (folder / "alerts.yaml").write_text(quick)
    return folder / "prometheus.yml"


class Prometheus:
    """Scrapes one server every 2 s, and evaluates the alerts every second, from `with` to the end of the block."""

    def __init__(self, folder: Path, admin: str) -> None:
        self._command = [
            str(BINARIES / "prometheus"),
            f"--config.file={write_config(folder, admin)}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        ]
        self._log = folder / "prometheus.log"

    def query(self, expression: str) -> list[dict[str, Any]]:
        return list(self._ask("query", query=expression)["result"])

    def values_of(self, label: str) -> set[str]:
        return set(self._ask(f"label/{label}/values"))

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> bool:
        """Returns whether the condition came true in time."""
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(INTERVAL_S)
        return True

    def _ask(self, path: str, **parameters: str) -> Any:
        with urlopen(f"http://{self._address}/api/v1/{path}?{urlencode(parameters)}", timeout=TIMEOUT_S) as reply:
            return json.load(reply)["data"]

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        try:
            if not self.wait_until(lambda: self._process.poll() is not None or _READY in self._log.read_text()):
                raise RuntimeError(f"Prometheus did not start: {self._log.read_text()}")
            found = _LISTENING.search(self._log.read_text())
            if found is None:
                raise RuntimeError(f"Prometheus does not listen: {self._log.read_text()}")
            self._address = found[1]
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
