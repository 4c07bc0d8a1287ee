"""Puts a server into each state that an alert is for, and says after how long Prometheus fires the alert."""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tools.alerts.prometheus import Prometheus, rules
from tools.alerts.scenes import SCENES, Scene

LIMIT_S: Final = 60.0


def rehearse(scene: Scene) -> dict[str, float | None]:
    """Returns the seconds from the beginning of the state until each alert fired, None for one that did not."""
    with (
        tempfile.TemporaryDirectory() as name,
        scene.state(Path(name)) as (admin, bring_about),
        Prometheus(Path(name), admin) as prometheus,
    ):
        # Before the first scrape, Prometheus finds that there is no server.
        if not prometheus.wait_until(lambda: bool(prometheus.query("aclgrad_ready == 1")) and not prometheus.alerts()):
            raise RuntimeError(f"the server is not well before the state: {prometheus.alerts().keys()}")
        begin = time.monotonic()
        bring_about()
        fired: dict[str, float | None] = dict.fromkeys(scene.alerts)

        def have_fired() -> bool:
            for alert, annotations in prometheus.alerts().items():
                if fired.get(alert, 0) is None:
                    # Prometheus writes `<error expanding template` where a template fails.
                    assert not any("<error" in text for text in annotations.values()), annotations
                    fired[alert] = time.monotonic() - begin
            return None not in fired.values()

        prometheus.wait_until(have_fired, LIMIT_S)
        return fired


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.alerts", description=__doc__)
    parser.add_argument("scenes", nargs="*", default=list(SCENES), help=" ".join(SCENES))
    scenes = parser.parse_args().scenes
    if unknown := set(scenes) - SCENES.keys():
        parser.error(f"there is no scene {', '.join(unknown)}; there are {', '.join(SCENES)}")
    waits = {rule["alert"]: rule.get("for", "0s") for rule in rules()}
    failed = 0
    print(f"{'state':<16} {'alert':<27} {'fired after':>11}  of which `for`, here seconds for minutes")
    for name in scenes:
        for alert, seconds in rehearse(SCENES[name]).items():
            failed += seconds is None
            after = "not at all" if seconds is None else f"{seconds:.1f} s"
            print(f"{name:<16} {alert:<27} {after:>11}  {waits[alert]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
