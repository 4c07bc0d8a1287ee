"""The status page in a browser: of a server under load, on a phone and a desk, in the light and in the dark."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

import aclgrad
from aclgrad.descriptions.hosts import WorkerAnswer, merge
from aclgrad.operators.cases import first_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad_server.admin import page
from aclgrad_server.status.problems import problems_of
from tests.server.status.statuses import device, failure, operator, status_with
from tools.screens import SCREENS, Screen, keep
from tools.serving import Server

from .screens import check_sight

WAIT_S = 60
CALLS = [(each.spec.name, each.arrays(), each.case.attributes) for each in first_cases(Product.ATLAS_A2)]


@pytest.fixture(scope="module")
def busy() -> Iterator[Server]:
    """A server that several clients call, some of them wrongly."""
    stop = threading.Event()

    def call(address: str, number: int) -> None:
        with aclgrad.Client(address, retries=0) as client:
            while not stop.is_set():
                name, arrays, attributes = CALLS[number % len(CALLS)]
                client.execute(name, arrays, attributes)
                number += 1
                if number % 50 == 0:
                    with pytest.raises(aclgrad.InvalidFieldError):
                        client.adaptive_avg_pool2d_backward(np.ones((1, 2, 2), np.float32), (3, 4, 4))

    with Server("--max-waiting-calls", "200") as server, ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(call, server.address, number) for number in range(3)]
        try:
            yield server
        finally:
            stop.set()
        for each in calls:
            each.result(WAIT_S)


def wait(browser: Chrome, condition: Callable[[Chrome], object]) -> None:
    WebDriverWait(browser, WAIT_S, poll_frequency=0.1).until(condition)


def text(browser: Chrome, selector: str) -> str:
    found: str = browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
    return found


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_server_under_load(browser: Chrome, busy: Server, screen: Screen, pictures: Path) -> None:
    screen.use(browser)
    browser.get(f"http://{busy.admin}/")
    wait(browser, lambda browser: "INVALID_FIELD" in text(browser, "#failures"))
    wait(browser, lambda browser: "max_unpool2d_backward" in text(browser, "#operators"))
    # On a busy machine not all is well: the event loop is late.
    headline = text(browser, "#headline")
    assert headline
    assert "not ready" not in headline.lower()
    assert "CPU as Ascend910B1" in text(browser, "#devices")
    assert "receiving" in text(browser, "#load")
    assert float(text(browser, "#load dd").replace(",", "")) > 0
    assert "max_waiting_calls\n200" in text(browser, "#settings")
    check_sight(browser, screen)
    keep(browser, pictures / f"load-{screen}.png")
    assert [each for each in browser.get_log("browser") if each["level"] == "SEVERE"] == []


def test_page_follows_the_server_until_it_ends(browser: Chrome, pictures: Path) -> None:
    SCREENS[0].use(browser)
    with Server() as server:
        browser.get(f"http://{server.admin}/")
        browser.execute_script("window.same = true")
        assert text(browser, "#operators") == ""
        with aclgrad.Client(server.address) as client:
            client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2))
        wait(browser, lambda browser: "adaptive_avg_pool2d_backward" in text(browser, "#operators"))
        assert not browser.execute_script("return document.querySelector('#stale').checkVisibility()")
    wait(browser, lambda browser: browser.execute_script("return document.querySelector('#stale').checkVisibility()"))
    assert browser.execute_script("return window.same")
    keep(browser, pictures / "ended.png")


LONG_PATH = "/a/very/long/path/without/any/space/that/goes/on/and/on/and/on"
LOST = status_with(
    not_ready_reason="device lost",
    devices=[device(index=0), device(index=1, down=True, sample_age=Duration(seconds=90))],
    queue=pb.QueueStatus(running_limit=8, running_count=8, waiting_limit=4096, waiting_count=4095),
    recent_failures=[failure("DEVICE_LOST", 2, 17), failure("DEVICE_MEMORY_EXHAUSTED", 3, 2)],
    operators=[
        pb.OperatorStatus(
            name="max_pool2d_with_indices_backward",
            call_count=2**40,
            failure_count=123_456_789,
            calls_per_second=123_456,
            median_latency=Duration(nanos=999_999),
            p99_latency=Duration(seconds=59, nanos=900_000_000),
        )
    ],
    changed_settings={"acl_config": f"{LONG_PATH}/acl.json"},
    certificate_remaining=Duration(seconds=7200),
)
EVERYTHING = status_with(
    queue=pb.QueueStatus(
        running_limit=1024,
        running_count=1024,
        waiting_limit=4096,
        waiting_count=4095,
        small_running_limit=1024,
        small_running_count=1024,
        small_waiting_limit=2048,
        small_waiting_count=2048,
        receiving_count=4096,
    ),
    operators=[
        *(operator(0.0012, 0.0456, name) for name in OPERATORS),
        pb.OperatorStatus(name="none", call_count=2**20, failure_count=2**20),
        pb.OperatorStatus(name="unknown", call_count=2),
    ],
    programs=pb.ProgramStatus(
        program_count=123_456_789,
        failure_count=123_456,
        step_count=123_456_789_012,
        failed_step_count=123_456_789,
        programs_per_second=12_345,
        median_latency=Duration(seconds=1601),
        p99_latency=Duration(seconds=1663),
    ),
    recent_failures=[
        failure("INVALID_FIELD", 2, 17),
        pb.FailureStatus(reason="LIMIT_EXCEEDED", operator="none", method="ExecuteProgramChunked"),
    ],
)
GIVEN_UP = "given up: it ended 5 times within a minute, the last time with exit code 70"
STATES = {
    "starting": pb.GetServerStatusResponse(version="0.1.0", not_ready_reason="starting"),
    "lost": LOST,
    "everything": EVERYTHING,
    "host": merge(
        [
            WorkerAnswer(0, status_with(), addresses=["0.0.0.0:50052"], restart_count=0),
            WorkerAnswer(1, LOST, addresses=["[::]:50053", f"unix:{LONG_PATH}/aclgrad.sock.1"], restart_count=123_456),
            WorkerAnswer(2, reason=GIVEN_UP, addresses=["0.0.0.0:50054"], restart_count=5, device_index=2),
            WorkerAnswer(3, reason="restarts in 4 s", addresses=["0.0.0.0:50055"], restart_count=1, device_index=3),
        ]
    ),
    "silent": merge([WorkerAnswer(0, reason="restarts in 4 s"), WorkerAnswer(1, reason="does not answer")]),
}


@pytest.mark.parametrize("screen", SCREENS, ids=str)
@pytest.mark.parametrize("state", STATES)
def test_servers_with_problems(browser: Chrome, state: str, screen: Screen, pictures: Path, tmp_path: Path) -> None:
    status = pb.GetServerStatusResponse()
    status.CopyFrom(STATES[state])
    if not status.workers:
        status.problems.extend(problems_of(status))
    file = tmp_path / "page.html"
    file.write_text(page.render(status))
    screen.use(browser)
    browser.get(file.as_uri())
    headline = status.problems[0].summary if status.problems else "all is well"
    assert text(browser, "#headline").lower().startswith(headline)
    check_sight(browser, screen)
    keep(browser, pictures / f"{state}-{screen}.png")


@pytest.mark.parametrize("width", [320, 360, 768, 1280, 1920])
def test_tiles_fill_their_rows_at_every_width(browser: Chrome, width: int, tmp_path: Path) -> None:
    (file := tmp_path / "page.html").write_text(page.render(EVERYTHING))
    (screen := Screen(str(width), width, 900, "light")).use(browser)
    browser.get(file.as_uri())
    check_sight(browser, screen)
    for name, count in (("#load", 8), ("#programs", 4)):
        boxes = browser.execute_script(_BOXES, name)
        assert len(boxes) == count
        rows: dict[float, list[float]] = {}
        for top, height in boxes:
            rows.setdefault(top, []).append(height)
        assert len({len(row) for row in rows.values()}) == 1, "no tile stands alone"
        assert all(len(set(row)) == 1 for row in rows.values()), "those of a row are equally high"


_BOXES = """
return [...document.querySelectorAll(arguments[0] + " > *")].map((each) => {
  const {top, height} = each.getBoundingClientRect();
  return [top, height];
});
"""
