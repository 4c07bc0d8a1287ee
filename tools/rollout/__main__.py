"""`python -m tools.rollout`: rolling updates under the calls of clients, and what they lose."""

import argparse
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tools.chaos.history import History, read
from tools.rollout.callers import clients, write_questions
from tools.rollout.cluster import Cluster
from tools.rollout.deployment import Deployment
from tools.rollout.names import Answers, NameServer
from tools.rollout.report import TITLES, problems_of, rows_of, unaware
from tools.rollout.scenes import SCENES, SHORT, Scene
from tools.rollout.versions import BUILD, Version, checkout, last_release

BEFORE_S: Final = 3.0
AFTER_S: Final = 2.0
SLACK_S: Final = 30.0
"""After the age of a connection, for name servers that repeat an answer."""


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.rollout", description=__doc__)
    parser.add_argument(
        "scenes", nargs="*", metavar="SCENE", help="; ".join(f"{k}: {v.about}" for k, v in SCENES.items())
    )
    parser.add_argument("--short", action="store_true", help=f"only {', '.join(SHORT)}: half a minute")
    parser.add_argument("--replicas", type=int, help="pods; by default those of the manifest")
    options = parser.parse_args()
    names = options.scenes or (SHORT if options.short else list(SCENES))
    if unknown := set(names) - SCENES.keys():
        parser.error(f"there is no scene {', '.join(unknown)}; there are {', '.join(SCENES)}")
    scenes = {name: SCENES[name] for name in names}
    versions = _versions(scenes.values())
    failed = 0
    for name, scene in scenes.items():
        deployment = replace(Deployment.of_manifest(), **scene.deployment)
        if options.replicas:
            deployment = replace(deployment, replicas=options.replicas)
        failed += not run(name, scene, versions, deployment)
    return int(failed > 0)


def _versions(scenes: Iterable[Scene]) -> dict[str, Version]:
    """Returns the versions by their names in scenes; builds the last release only if a scene has it."""
    found = {"checkout": checkout()}
    found["broken"] = found["checkout"].broken()
    if any("release" in (scene.before, scene.after) for scene in scenes):
        found["release"] = last_release()
    return found


def run(name: str, scene: Scene, versions: dict[str, Version], deployment: Deployment) -> bool:
    """Plays one scene, and returns whether nothing was lost."""
    before, after = versions[scene.before], versions[scene.after]
    if before == after:
        after = after.named(f"{after.name}-again")
    print(f"{name}: {scene.about}", flush=True)
    folder = BUILD / "runs" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    questions = folder / "questions"
    write_questions(
        questions,
        set.intersection(*(each.operators() for each in {before.python: before, after.python: after}.values())),
    )
    answers = Answers(scene.lag_s, scene.cache_s)
    with (
        History(folder / "pods.jsonl") as history,
        NameServer(answers) as names,
        Cluster(deployment, answers, folder, history) as cluster,
    ):
        cluster.roll(before)
        cluster.wait_until_rolled()
        # Answers that were given before any pod was ready have been forgotten.
        time.sleep(scene.lag_s)
        with clients((before, after), names.target(cluster.port), questions, folder) as processes:
            time.sleep(BEFORE_S)
            begin = time.monotonic()
            scene.play(cluster, before, after)
            update_s = time.monotonic() - begin
            time.sleep(AFTER_S)
            _wait_for_awareness(folder, deployment.connection_age_s + SLACK_S)
    events = read(sorted(folder.glob("*.jsonl")))
    table = Table(*TITLES)
    for row in rows_of(events):
        table.add_row(*row)
    Console(width=120).print(table)
    problems = [*problems_of(events), *processes.failures]
    for problem in problems[:10]:
        print(problem, file=sys.stderr)
    print(
        f"{name}: {len(problems)} problems; the update took {update_s:.0f} s; history and logs in {folder}", flush=True
    )
    return not problems


def _wait_for_awareness(folder: Path, limit_s: float) -> None:
    """Waits until all clients use all new pods, or for so long."""
    end = time.monotonic() + limit_s
    while unaware(read(sorted(folder.glob("*.jsonl")))) and time.monotonic() < end:
        time.sleep(1.0)


if __name__ == "__main__":
    sys.exit(main())
