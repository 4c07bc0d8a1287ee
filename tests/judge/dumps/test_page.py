"""The page of a judgement: what it says, in which order, and that nothing in a dump can harm its reader."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from aclgrad.judge.dumps import page as module
from aclgrad.judge.dumps.page import MOST_TEXT, render, summary_of
from aclgrad.judge.dumps.records import SERVER, TRAINING, CallRow, Side
from aclgrad.judge.dumps.summary import Summary, figure
from aclgrad.judge.findings.rows import End, Verdict

from .summaries import CASES, HF32, HOSTILE, TARGET, noted, run_of, step, wrong

MOST_BYTES = 5_000_000


class Page(HTMLParser):
    """The text of a page, its elements, and what it embeds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.embedded = ""
        self._within = ""
        self.feed(text)
        self.text = " ".join(self.text.split())
        self.calls: dict[str, Any] = json.loads(self.embedded)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style", "title"):
            self._within = "calls" if dict(attrs).get("id") == "calls" else tag

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "title"):
            self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "calls":
            self.embedded += data
        elif not self._within:
            self.text += f" {data}"

    def kind(self, id: str) -> str:
        """Returns the classes of an element."""
        return next(attributes["class"] or "" for _, attributes in self.tags if attributes.get("id") == id)

    def apis(self) -> list[str | None]:
        return [attributes["data-api"] for _, attributes in self.tags if "data-api" in attributes]


def page_of(case: str, **changed: object) -> Page:
    summary = Summary.of(CASES[case]())
    return Page(render(summary, run_of(summary, **changed)))


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def test_coverage_is_before_the_verdict_and_the_rest_is_named_with_reasons() -> None:
    page = page_of("one")
    assert in_order(
        page.text,
        "372 calls: 361 judged, 11 not judged",
        "Not judged: Tensor.__iadd__ 7, Functional.dropout 3, Distributed.all_reduce 1",
        "1 of 361 judged calls is wrong",
        "The first is Tensor.__iadd__.11.backward , call 253 of 372",
        "37 calls are noted, not failed.",
        "By API",
        "Not judged 11 calls",
        "Tensor.__iadd__ 7 its recorded input was overwritten later",
        "Functional.dropout 3 random",
    )
    assert page.kind("verdict") == "card serious"


@pytest.mark.parametrize(
    ("case", "changed", "kind", "headline"),
    [
        ("clean", {}, "good", "Every call is right"),
        ("rest", {}, "notice", "No judged call is wrong"),
        (
            "clean",
            {"end": End.INTERRUPTED, "message": "interrupted", "exit_code": 130},
            "notice",
            "No call so far is wrong",
        ),
        ("rest", {"exit_code": 1}, "notice", "Exit code 1."),
        ("unjudged", {}, "notice", "No call was judged"),
        ("empty", {}, "notice", "No call was judged"),
        ("one", {}, "serious", "1 of 361 judged calls is wrong"),
    ],
)
def test_only_a_complete_run_that_judged_every_call_is_green(
    case: str, changed: dict[str, object], kind: str, headline: str
) -> None:
    page = page_of(case, **changed)
    assert page.kind("verdict") == f"card {kind}"
    assert headline in page.text


def test_a_run_that_was_interrupted_counts_the_calls_that_it_has_not_reached() -> None:
    summary = Summary.of(step()[:200], 372)
    run = run_of(summary, end=End.INTERRUPTED, message="interrupted", exit_code=130)
    page = Page(render(summary, run))
    assert in_order(
        page.text, "372 calls: 200 judged, 172 not reached", "No call so far is wrong", "The run is partial"
    )
    assert page.kind("verdict") == "card notice"
    assert 'class="rest" style="flex: 172"' in page.source
    fields = summary_of(summary, run)
    assert (fields["calls"], fields["judged"], fields["not_reached"]) == (372, 200, 172)
    assert summary_of(Summary.of(step()), run)["not_reached"] == 0
    failed = Summary.of([*step()[:9], wrong(step()[9])], 372)
    assert "call 10 of 10 reached" in Page(render(failed, run)).text


def test_failures_of_one_api_are_one_line_and_the_worst_come_first() -> None:
    page = page_of("eighteen")
    assert all(str(at) in page.calls["details"] for at, each in enumerate(page.calls["verdict"]) if each == "f")
    assert page.apis()[:2] == ["Functional.batch_norm", "Functional.linear"]
    assert len(page.apis()) == len(set(page.apis()))
    assert in_order(page.text, "Failed Functional.batch_norm 110 18", "Noted not failed", f"noted: {HF32}", "Passed")


def test_each_call_has_a_cell_in_the_order_of_execution() -> None:
    summary = Summary.of(CASES["followers"]())
    page = Page(render(summary, run_of(summary)))
    calls = page.calls
    letters = {Verdict.PASSED: "p", Verdict.NOTED: "n", Verdict.FAILED: "f", Verdict.SKIPPED: "s"}
    assert calls["verdict"] == "".join(letters[row.verdict] for row in summary.rows)
    assert calls["off"].count("1") == 9
    assert "9 had inputs that were already wrong." in page.text
    assert calls["first"] == calls["verdict"].index("f")
    names = zip(calls["api"], calls["call"], strict=True)
    assert [f"{calls['texts'][api]}.{calls['texts'][call]}" for api, call in names] == [
        row.name for row in summary.rows
    ]


def test_details_have_both_sides_pytorch_the_limit_worst_elements_and_a_picture() -> None:
    summary = Summary.of(CASES["sides"]())
    page = Page(render(summary, run_of(summary)))
    row = summary.first_wrong
    assert row is not None
    (tensor,) = row.tensors
    _, count, [[name, _, extents, pytorch, sides]] = page.calls["details"][str(page.calls["first"])]
    assert (count, page.calls["texts"][name], extents) == (1, "gradient of input.0", [8 * 64 * 56, 56])
    assert pytorch == figure(tensor.pytorch_error)
    assert list(sides) == page.calls["sides"] == [TRAINING, SERVER]
    side = tensor.sides[TRAINING]
    assert sides[TRAINING][:4] == ["f", figure(side.error), figure(side.limit), "300"]
    assert [element[0] for element in sides[TRAINING][6]] == [", ".join(map(str, each.index)) for each in side.worst]
    assert sides[TRAINING][7] == list(side.picture)
    assert sides[SERVER][0] == "p"
    assert in_order(
        page.text, "Training is wrong and the server right in 1 call", "The server is wrong and training right"
    )


def test_a_result_that_failed_is_before_one_that_was_noted() -> None:
    (bad,), (note,) = wrong(step(1)[0], factor=2).tensors, noted(step(1)[1]).tensors
    row = replace(step(1)[0], verdict=Verdict.FAILED, tensors=(note, replace(bad, name="gradient of weight")))
    calls = Page(render(Summary.of([row]), run_of(Summary.of([row])))).calls
    assert [calls["texts"][tensor[0]] for tensor in calls["details"]["0"][2]] == ["gradient of weight", note.name]


def test_what_the_server_has_not_computed_is_in_the_page_and_in_the_rows() -> None:
    summary = Summary.of(CASES["served"]())
    run = run_of(summary)
    page = Page(render(summary, run))
    assert in_order(
        page.text, "server: 3 of 13 backward calls.", ": no operator computes it.", "No judged call is wrong"
    )
    assert page.kind("verdict") == "card notice"
    fields = summary_of(summary, run)
    assert (fields["served"], fields["on_the_server_alone"]) == ({"backward": 3}, 1)
    assert sum(each["calls"] for each in fields["not_served"]) == 10
    assert [CallRow.from_json(json.loads(json.dumps(row.to_json()))) for row in summary.rows] == [
        replace(row, seconds=round(row.seconds, 4)) for row in summary.rows
    ]


def test_the_address_of_the_server_is_shown_once() -> None:
    assert page_of("sides").source.count(TARGET) == 1
    assert "server" not in page_of("clean").text


def test_each_dump_has_its_strip() -> None:
    page = page_of("ranks")
    starts = [int(attributes["data-start"] or "") for _, attributes in page.tags if "data-start" in attributes]
    assert starts == [0, 272, 544]
    assert in_order(page.text, "step0/rank0 272 calls", "step0/rank1 272 calls, 4 failed", "step1/rank0 272 calls")
    assert "call 153 of 272, step0/rank1" in page.text


def test_values_that_are_not_finite_are_texts() -> None:
    page = page_of("broken")
    elements = page.calls["details"]["50"][2][0][4][TRAINING][6]
    assert [element[1:] for element in elements] == [["nan", "0.25", "nan"], ["inf", "-inf", "nan"], ["1", "0", "inf"]]
    assert "NaN where 0.25 is right" in page.text
    assert "the shape is 8x64x28x28 instead of 8x64x56x56" in page.calls["texts"]


def test_names_and_messages_of_a_dump_are_text_and_have_a_limit() -> None:
    page, harmless = page_of("hostile"), page_of("clean")
    more = {"h3", "table", "tbody", "tr", "th", "td", "li", "ul", "a"}
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in harmless.tags} | more
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert not any(attribute.startswith("on") for _, attributes in page.tags for attribute in attributes)
    assert HOSTILE in page.text
    assert HOSTILE in page.calls["texts"]
    assert max(map(len, page.calls["texts"])) == MOST_TEXT + 1


def test_the_page_loads_nothing() -> None:
    page = page_of("one")
    assert not re.search(r"(?:src|href)=\"(?!#|data:,)|url\(|import ", page.source)
    policies = [attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"]


def test_fifty_thousand_wrong_calls_would_be_less_than_five_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of them has a tenth of the room for details; all else grows with the calls."""
    monkeypatch.setattr(module, "MOST_DETAIL", module.MOST_DETAIL // 10)
    bad = [wrong(row) for row in step(20)]
    apis = [f"Functional.{name}" for name in ("conv2d", "batch_norm", "relu", "gelu")]
    rows = [replace(bad[at % len(bad)], index=at, name=f"{apis[at % 4]}.{at}.forward") for at in range(5_000)]
    summary = Summary.of(rows)
    page = Page(render(summary, run_of(summary)))
    assert len(page.source.encode()) < MOST_BYTES / 10 + len(page_of("empty").source.encode())
    assert len(page.calls["verdict"]) == 5_000
    assert 0 < len(page.calls["details"]) < 5_000
    assert str(page.calls["first"]) in page.calls["details"]


def test_messages_that_a_page_has_to_escape_count_as_what_they_become() -> None:
    calls = step(30)
    rows = [
        replace(calls[at % len(calls)], index=at, verdict=Verdict.SKIPPED, message=f"{at}{'<' * 390}", tensors=())
        for at in range(5000)
    ]
    summary = Summary.of(rows)
    assert len(render(summary, run_of(summary)).encode()) < MOST_BYTES


def test_many_apis_and_reasons_have_a_limited_number_of_lines() -> None:
    rows = [replace(row, name=f"Functional.f{row.index}.0.forward") for row in step(60)]
    half = [replace(row, verdict=Verdict.SKIPPED, message=f"reason {row.index}", tensors=()) for row in rows[:]]
    rows += [replace(row, index=row.index + len(rows), name=f"Functional.g{row.index}.0.forward") for row in half]
    summary = Summary.of(rows)
    page = Page(render(summary, run_of(summary)))
    rest = len(step(60)) - 300
    assert rest > 0
    assert f"{rest} further APIs of this kind." in page.text
    assert len(page.apis()) == 300
    assert len(re.findall(r" reason \d+", page.text)) == 300
    assert f"{rest} further calls with other reasons" in page.text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.13e-6, "1.1e-6"),
        (0.02, "0.02"),
        (1.26, "1.3"),
        (909.4, "909"),
        (90909.0, "9.1e4"),
        (None, "not finite"),
        (float("nan"), "not finite"),
        (float("inf"), "inf"),
        (9999.6, "1.0e4"),
        (0.00999, "1.0e-2"),
    ],
)
def test_figures_have_two_digits(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_a_call_without_details_is_still_named() -> None:
    side = Side(Verdict.FAILED, "", None, 0.0)
    rows = [wrong(row) for row in step(4)]
    rows[0] = replace(rows[0], tensors=(replace(rows[0].tensors[0], sides={TRAINING: side}),))
    summary = Summary.of(rows)
    assert "not finite" in Page(render(summary, run_of(summary))).text
