"""The command behind `make load`; `make load LOAD_FLAGS=--help` lists its flags."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tools.benchmarks.measure import running
from tools.load import report, scenario
from tools.load.judgement import Run, judge
from tools.load.scenario import Scenario
from tools.serving import Server

FOLDER: Final = Path("build/load")
SHORT: Final = "short"
"""A bit of several others, for continuous integration; it is run only by name."""
LONG: Final = tuple(name for name in scenario.names() if name != SHORT)
STOP_TIMEOUT_S: Final = 40
"""Longer than any call may take."""


def main() -> int:
    flags = _flags()
    FOLDER.mkdir(parents=True, exist_ok=True)
    runs = []
    chosen = [scenario.read(name).scaled(flags.factor) for name in flags.scenarios or LONG]
    try:
        for each in chosen:
            runs.append(_run(each, flags.factor))
            print(report.text(runs[-1]), flush=True)
    finally:
        # What was measured before a scenario broke off, or somebody pressed Ctrl-C, is told all the same.
        report.write(FOLDER, runs)
    print(f"the report is in {FOLDER}/index.html, Locust's own beside it")
    return 0 if all(judged.passed for run in runs for judged in judge(run)) else 1


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make load", description=__doc__)
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(scenario.names())}; all of them"
    )
    parser.add_argument("--factor", type=float, default=1.0, help="stages of so many times their length")
    flags = parser.parse_args()
    unknown = sorted(set(flags.scenarios) - set(scenario.names()))
    if unknown:
        parser.error(f"there is no scenario {unknown[0]!r}; there are {', '.join(scenario.names())}")
    return flags


def _run(chosen: Scenario, factor: float) -> Run:
    """Runs Locust on a server and an echo of its own; raises where Locust ends without a result."""
    result = FOLDER / f"{chosen.name}.json"
    result.unlink(missing_ok=True)
    config = FOLDER / f"{chosen.name}.acl.json"
    config.write_text(json.dumps({"host": chosen.device}))
    print(f"{chosen.name}: {chosen.about} {chosen.seconds:.0f} s", flush=True)
    with (
        Server("--log-level", "warning", "--acl-config", str(config), *chosen.server) as server,
        running("tools.benchmarks.ceilings") as echo,
    ):
        order = {
            "scenario": chosen.name,
            "factor": factor,
            "server": server.address,
            "server_process": server.process_id,
            "echo": echo.address,
            "echo_process": echo.process_id,
            "result": str(result),
        }
        command = [sys.executable, "-m", "locust", "--locustfile", "tools/load/locustfile.py", "--headless"]
        command += ["--only-summary", "--stop-timeout", str(STOP_TIMEOUT_S), "--loglevel", "WARNING"]
        command += ["--html", str(FOLDER / f"{chosen.name}.html")]
        with (FOLDER / f"{chosen.name}.txt").open("w") as output:
            subprocess.run(
                command,
                env=os.environ | {"ACLGRAD_LOAD": json.dumps(order), "PYTHONPATH": "."},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=chosen.seconds + STOP_TIMEOUT_S + 60,
                check=False,
            )
        log = server.log
    if not result.exists():
        raise RuntimeError(f"Locust ended without a result; see {output.name}")
    told: dict[str, Any] = json.loads(result.read_text())
    return Run.of(chosen, told, log)


if __name__ == "__main__":
    sys.exit(main())
