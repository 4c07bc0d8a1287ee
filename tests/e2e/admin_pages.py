"""What the admin listener of a server says, and servers that are not ready yet or never."""

import http.client
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import psutil
from prometheus_client.parser import text_string_to_metric_families

from tools.serving import clean_environment, command, write_host_config

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def fetch(address: str | None, path: str, method: str = "GET") -> tuple[http.client.HTTPResponse, str]:
    assert address is not None
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply, reply.read().decode()
    finally:
        connection.close()


def ask(address: str | None, path: str) -> tuple[int, str]:
    reply, text = fetch(address, path)
    return reply.status, text


def scrape(admin: str | None) -> Series:
    """Returns every sample, by name and labels."""
    status, text = ask(admin, "/metrics")
    assert status == 200
    families = text_string_to_metric_families(text)
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def value(admin: str | None, name: str, **labels: str) -> float | None:
    """Returns the sum of the samples that have these labels; None if there are none."""
    found = [each for (other, had), each in scrape(admin).items() if other == name and labels.items() <= had]
    return sum(found) if found else None


@contextmanager
def watching(admin: str | None, *paths: str) -> Iterator[dict[str, set[tuple[int, str]]]]:
    """Yields the different answers so far, by path; the block has to wait for the end of the server."""
    answers: dict[str, set[tuple[int, str]]] = {path: set() for path in paths}

    def watch() -> None:
        with suppress(OSError, http.client.HTTPException):  # until it has ended
            while True:
                for path in paths:
                    answers[path].add(ask(admin, path))

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield answers
    finally:
        watcher.join(60)


def hanging_kernel(folder: Path, duration_ms: int = 1500, **host: int) -> str:
    """Returns the configuration of a device whose first kernel takes its time."""
    return write_host_config(folder, faults=[{"kind": "hang", "at": 1, "duration_ms": duration_ms}], **host)


@contextmanager
def starting(log: Path, *flags: str, changes: str = "", **options: bool) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yields a server that may never be ready, and its admin address; no process of it is left afterwards."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command("--backend", "host", "--listen", "127.0.0.1:0", *flags, changes=changes),
            env=clean_environment(changes),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            **options,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            name, _, address = process.stdout.readline().strip().partition(": ")
            assert name == "admin", log.read_text()
            yield process, address
        finally:
            if process.poll() is None:
                for each in psutil.Process(process.pid).children():
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
                process.kill()
