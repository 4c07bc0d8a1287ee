"""The status page shows the status whatever it holds, and nothing in it can run or load anything."""

import base64
import hashlib
import re
from html.parser import HTMLParser

from google.protobuf.duration_pb2 import Duration

from aclgrad.descriptions.hosts import WorkerAnswer, merge
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad_server.admin import page
from aclgrad_server.status.problems import problems_of
from tests.server.status.statuses import device, failure, status_with


class Text(HTMLParser):
    """The visible text, and every element with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._hidden = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("style", "script"):
            self._hidden = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = ""

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


def shown(status: pb.GetServerStatusResponse) -> str:
    status.problems.extend(problems_of(status))
    return Text(page.render(status)).text


def test_what_a_sound_server_shows() -> None:
    latency = Duration(nanos=1_250_000)
    name, p99 = "max_unpool2d_backward", Duration(nanos=85_000)
    pool = pb.OperatorStatus(name=name, call_count=12_345, failure_count=3, calls_per_second=205.75)
    pool.MergeFrom(pb.OperatorStatus(median_latency=latency, p99_latency=p99))
    convolution = pb.OperatorStatus(name="convolution_backward", call_count=8)
    others = [pb.OperatorStatus(name=name, call_count=count) for name, count in (("none", 1), ("unknown", 2000))]
    others[0].failure_count = 1
    operators = [pool, convolution, *others]
    programs = pb.ProgramStatus(program_count=1234, failure_count=5, step_count=56_789, programs_per_second=2.5)
    programs.MergeFrom(pb.ProgramStatus(median_latency=latency, p99_latency=Duration(seconds=2)))
    text = shown(
        status_with(
            operators=operators,
            programs=programs,
            recent_failures=[
                failure("INVALID_FIELD", 3, 7),
                pb.FailureStatus(reason="LOST", operator="none", method="M"),
            ],
            versions={"driver": "25.0.1"},
            changed_settings={"streams": "8"},
            certificate_remaining=Duration(seconds=60 * 86_400),
        )
    )
    for part in (
        "aclgrad 910B version 0.1.0, up for 3 d 4 h",
        "All is well 1 device computes, calls are welcome",
        "calls a second 206",
        "running 0 of 4 waiting 0 of 64 failed since start 4",
        "receiving 0 replying 0 ",
        "Programs programs a second 2.5 ran since start 1,234 5 failed steps since start 56,789 0 failed "
        "time of a program 1.25 ms p99 2 s",
        "failed convolution convolution_backward 0 - - 0 unpooling max_unpool2d_backward 206 1.25 ms 85 µs 3",
        "Other calls: 1 without a single operator (malformed, cancelled before they were read, or programs that failed "
        "as a whole), "
        "2,000 of operators that the server does not know.",
        "LOST M 0 0 ",
        "0 Ascend910B1 up pool 1 MiB used, 2 MiB held, of 1 GiB",
        "reason last minute since start last INVALID_FIELD max_unpool2d_backward, ExecuteOperator 7 7 ",
        "memory 300 MiB of 1 GiB",
        "certificate expires in 60 d 0 h",
        "libacl_host.so 1.0.0 driver 25.0.1",
        "streams 8",
    ):
        assert part in text
    for absent in ("none", "unknown"):
        assert f"{absent} 0" not in text
    assert "Programs" not in shown(status_with())


def test_what_is_particular_is_shown() -> None:
    """The CPU that is not taken for a card, calls on their way, and what is wrong, which comes first."""
    on_cpu = shown(status_with(computes_on_cpu=True))
    assert on_cpu.startswith("all is well - aclgrad 910B on the CPU")
    assert "1 device computes on the CPU, calls are welcome" in on_cpu
    assert "0 CPU as Ascend910B1 up" in on_cpu
    assert "CPU" not in shown(status_with())
    queue = pb.QueueStatus(running_limit=4, waiting_limit=64, running_count=1, receiving_count=24, replying_count=3)
    assert "running 1 of 4 waiting 0 of 64 " in (loaded := shown(status_with(queue=queue)))
    assert "receiving 24 replying 3 " in loaded
    wrong = shown(status_with(not_ready_reason="device lost", devices=[device(down=True)]))
    assert (
        wrong.index("not ready: device lost") < wrong.index("device 0 (Ascend910B1) is down") < wrong.index("running")
    )
    assert "All is well" not in wrong
    assert "not ready: starting" in shown(pb.GetServerStatusResponse(version="0.1.0", not_ready_reason="starting"))


def test_no_text_becomes_markup() -> None:
    evil = """<script>alert(1)</script><img src=x onerror="a">'"&"""
    told = pb.WorkerStatus(addresses=[evil], not_ready_reason=evil)
    status = status_with(
        product=evil,
        library=evil,
        workers=[told],
        not_ready_reason=evil,
        versions={evil: evil},
        changed_settings={evil: evil},
        turned_off_operators=[pb.TurnedOffOperator(name=evil, reason=evil)],
        devices=[device(soc_name=evil)],
        operators=[pb.OperatorStatus(name=evil)],
        recent_failures=[pb.FailureStatus(reason=evil, operator=evil, method=evil)],
    )
    status.process.refused_counts[evil] = 1
    status.problems.extend(problems_of(status))
    found = Text(page.render(status))
    assert found.text.count(" ".join(evil.split())) >= 17
    assert [tag for tag, _ in found.elements].count("script") == 1
    assert not [tag for tag, _ in found.elements if tag == "img"]


def test_nothing_runs_or_loads_but_our_style_and_script() -> None:
    html = page.render(status_with())
    policy = page.HEADERS["content-security-policy"]
    for tag in ("style", "script"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag, attributes in Text(html).elements:
        # The policy would refuse these, too.
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        assert not [value for name, value in attributes.items() if name in ("src", "href") and value != "data:,"]
    assert page.HEADERS["cache-control"] == "no-store"


def host(*reasons: str) -> pb.GetServerStatusResponse:
    """Returns the status of a host, one of whose workers is sound and the others do not answer."""
    sound = status_with(devices=[device(index=7)], operators=[pb.OperatorStatus(name="none", calls_per_second=12.5)])
    first = WorkerAnswer(0, sound, addresses=["127.0.0.1:50052"], restart_count=2)
    others = enumerate(reasons, 1)
    return merge([first, *(WorkerAnswer(index, reason=reason, device_index=index) for index, reason in others)])


def test_what_a_host_shows() -> None:
    text = Text(page.render(host("restarts in 4 s"))).text
    for part in (
        "worker 1: restarts in 4 s - aclgrad 910B",
        "worker device calls/s running waiting memory loop p99 restarts up for "
        "0 ready 127.0.0.1:50052 7 12.5 0 0 300 MiB 1 ms 2 3 d 4 h "
        "1 restarts in 4 s 1 0 0 0 0 B - - - Devices",
        "7 Ascend910B1 up worker 0 pool",
        "Processes memory 300 MiB of 1 GiB",
    ):
        assert part in text
    assert "All is well 1 device computes" in Text(page.render(host())).text
    assert not re.search(r"[Ww]orker|Processes", shown(status_with()))


def test_what_a_host_shows_of_which_no_worker_answers() -> None:
    text = Text(
        page.render(merge([WorkerAnswer(0, reason="starting"), WorkerAnswer(1, reason="does not answer")]))
    ).text
    assert text.startswith("worker 1: does not answer - aclgrad")
    assert "0 starting - 0 0 0 0 B - - -" in text
    assert not re.search("[Vv]ersion|ago", text)
