"""Rolling updates of the pods of a headless Service while clients of both versions call: no call may fail."""

import argparse
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tools import released
from tools.lab.caller import Orders
from tools.lab.events import by_client, operations_of
from tools.lab.gradients import write_questions
from tools.lab.history import Event, History, read
from tools.lab.host import Host
from tools.lab.names import Answers, NameServer
from tools.lab.processes import ROOT, ClientProcesses
from tools.lab.validator import judge
from tools.serving import free_range

FOLDER: Final = Path("build/rolling")
MANIFEST: Final = ROOT / "deploy/kubernetes/base/deployment.yaml"
PODS: Final = 3
LAG_S: Final = 1.0
"""From a change of a pod to the name server, in a cluster that is well."""
TTL_S, CACHE_S = 5.0, 30.0
"""Those of CoreDNS's plugin `kubernetes`, and of the Corefile that kubeadm installs."""
AROUND_S: Final = 3.0
SLACK_S: Final = 30.0
"""After the age of a connection, for name servers that repeat an answer."""
# Each kernel takes 10 ms, so that some call is always under way where a process is asked to stop.
SLOW: Final = {"kind": "hang", "at": 1, "count": 10**9, "duration_ms": 10}
DEVICE: Final = {"threads": 1, "memory_bytes": 2**30, "faults_after_launches": 0, "faults": [SLOW]}
SHARES: Final = {"unary": 60, "batch": 20, "large": 16, "huge": 4}
PROGRAMS: Final = {"program": 16, "program in chunks": 4}
"""Of clients that have programs."""


@dataclass(frozen=True, slots=True)
class Version:
    """A release, or this checkout."""

    name: str
    python: str

    def operators(self) -> set[str]:
        return self._names("from aclgrad.operators.catalogue import OPERATORS; print(*OPERATORS)")

    def shares(self) -> dict[str, int]:
        return SHARES | PROGRAMS if "program" in self._names("import aclgrad; print(*dir(aclgrad.Client))") else SHARES

    def _names(self, code: str) -> set[str]:
        words = [self.python, "-c", code]
        return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def checkout() -> Version:
    return Version("checkout", sys.executable)


def last_release() -> Version:
    """Returns the last release; the first time, builds it, which takes minutes."""
    return Version("released", released.python())


@dataclass(frozen=True, slots=True)
class Update:
    """A row: from which version to which, how late the name server is, and whether a pod serves on when it leaves."""

    about: str
    is_from_release: bool = False
    is_to_release: bool = False
    lag_s: float = LAG_S
    cache_s: float = TTL_S
    has_pre_stop: bool = True


UPDATES: Final[Mapping[str, Update]] = {
    "late": Update("SIGTERM first, the name server 3 s later: no preStop", lag_s=3, has_pre_stop=False),
    "cached": Update("the name server repeats an answer for 30 s", cache_s=CACHE_S),
    "forward": Update("from the last release to this checkout", is_from_release=True),
    "back": Update("from this checkout to the last release", is_to_release=True),
}
SHORT: Final = ("late",)


class Pods:
    """Replaces pods one by one: a new one is ready before an old one's end begins."""

    def __init__(self, update: Update, answers: Answers, folder: Path, history: History, stack: ExitStack) -> None:
        settings = tomllib.loads(MANIFEST.with_name("aclgrad.toml").read_text())
        (container,) = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]["containers"]
        self._pre_stop_s = container["lifecycle"]["preStop"]["sleep"]["seconds"] if update.has_pre_stop else 0
        self.age_s = settings["max_connection_age_s"]
        self._flags = "--drain-timeout-s", str(settings["drain_timeout_s"]), "--max-connection-age-s", str(self.age_s)
        self._answers, self._folder, self._history, self._stack = answers, folder, history, stack
        self.port = free_range(2)
        self._started = 0
        self._ready: list[Host] = []

    def start(self, version: Version) -> None:
        self._started += 1
        # All have one port, each at an address of its own, because a headless Service tells addresses alone.
        address, name = f"127.0.1.{self._started}:{self.port}", f"pod-{self._started}"
        pod = Host(
            name,
            self._folder,
            *self._flags,
            address=address,
            device=DEVICE,
            python=version.python,
            restarts=False,
        )
        self._stack.enter_context(pod).wait_until_whole()
        self._ready.append(pod)
        self._history.add("pod", address=address, phase="ready")
        self._publish()

    def update(self, version: Version) -> None:
        """Ends with the last old process; an old pod drains while the next one is replaced."""
        threads = []
        for old in self._ready[:]:
            self.start(version)
            # Somebody asks at the worst moment: just before the name server hears of the first new pod.
            if not threads:
                self._answers.ask_anew()
            self._ready.remove(old)
            self._publish()
            self._history.add("pod", address=old.address, phase="deleted")
            threads.append(threading.Thread(target=self._end, args=(old,)))
            threads[-1].start()
        for each in threads:
            each.join()

    def _end(self, pod: Host) -> None:
        time.sleep(self._pre_stop_s)
        self._history.add("pod", address=pod.address, phase="gone", code=pod.stop())

    def _publish(self) -> None:
        self._answers.publish(pod.address.rpartition(":")[0] for pod in self._ready)


def unused(events: Sequence[Event]) -> Iterator[str]:
    """Yields a line for each client that has not called a pod that is left."""
    gone = {each["address"] for each in events if each["kind"] == "pod" and each["phase"] == "deleted"}
    ready = {each["address"] for each in events if each["kind"] == "pod" and each["phase"] == "ready"}
    operations, _ = operations_of(events)
    for client, ended in by_client(operations.values()):
        met = {each.ends[0].get("server") for each in ended} - {None}
        if met and (missing := ready - gone - met):
            yield f"{client} never used {', '.join(sorted(missing))}"


def problems_of(events: Sequence[Event]) -> Iterator[str]:
    """Yields broken promises, bad ends of processes, and pods that clients never used."""
    yield from map(str, judge(events))
    for each in events:
        if each["kind"] == "pod" and each["phase"] == "gone" and each["code"]:
            yield f"the process of pod {each['address']} ended with {each['code']}"
    yield from unused(events)


def run(name: str, update: Update) -> bool:
    """Returns whether nothing was lost."""
    before = last_release() if update.is_from_release else checkout()
    after = last_release() if update.is_to_release else checkout()
    print(f"{name}: {update.about}", flush=True)
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    answers = Answers(update.lag_s, update.cache_s)
    questions = write_questions(folder / "questions", [*SHARES, *PROGRAMS], before.operators() & after.operators())
    with ExitStack() as stack:
        history = stack.enter_context(History(folder / "pods.jsonl"))
        names = stack.enter_context(NameServer(answers))
        pods = Pods(update, answers, folder, history, stack)
        for _ in range(PODS):
            pods.start(before)
        # Answers that were given before any pod was ready have been forgotten.
        time.sleep(update.lag_s)
        ordered = [
            Orders(
                f"{version.name}-{style}",
                style,
                names.target(pods.port),
                ("any pod", "another"),
                version.shares(),
                questions,
                str(folder / f"{version.name}-{style}.jsonl"),
                (10.0,),
                python=version.python,
            )
            for version in {each.python: each for each in (before, after)}.values()
            for style in ("threads", "tasks")
        ]
        with ClientProcesses(ordered) as clients:
            clients.begin()
            clients.wait_for_answers()
            time.sleep(AROUND_S)
            begin = time.monotonic()
            pods.update(after)
            update_s = time.monotonic() - begin
            end = time.monotonic() + pods.age_s + SLACK_S
            time.sleep(AROUND_S)
            while any(unused(read(sorted(folder.glob("*.jsonl"))))) and time.monotonic() < end:
                time.sleep(1.0)
    events = read(sorted(folder.glob("*.jsonl")))
    problems = [*problems_of(events), *clients.failures]
    for each in problems[:10]:
        print(each, file=sys.stderr)
    operations, _ = operations_of(events)
    retries = sum(each.retries for each in operations.values())
    print(
        f"{name}: {len(operations)} operations, {retries} retries, {len(problems)} problems; "
        f"the update took {update_s:.0f} s; history and logs in {folder}",
        flush=True,
    )
    return not problems


def main(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("updates", nargs="*", help="; ".join(f"{name}: {each.about}" for name, each in UPDATES.items()))
    parser.add_argument("--short", action="store_true", help=f"only {', '.join(SHORT)}: half a minute")
    options = parser.parse_args(words)
    names = options.updates or (SHORT if options.short else list(UPDATES))
    if unknown := sorted({*names} - UPDATES.keys()):
        parser.error(f"there is no update {', '.join(unknown)}; there are {', '.join(UPDATES)}")
    return int(not all([run(name, UPDATES[name]) for name in names]))
