"""The tables of the HTML report."""

import re

from aclgrad.judge.findings.display import changes, render
from aclgrad.judge.findings.rows import Origin, Report, Row, Verdict

ORIGIN = Origin("a:1", "910B", "lib.so", "1.2.3")


def row(check: str, operator: str, verdict: Verdict, origin: Origin = ORIGIN) -> Row:
    return Row(origin, check, operator, "float32", (2,), "case", verdict, "", {}, 0.1)


def test_the_summary_counts_the_rows_of_each_operator_and_check() -> None:
    rows = [
        row("accuracy", "pool", Verdict.PASSED),
        row("accuracy", "pool", Verdict.PASSED),
        row("accuracy", "pad", Verdict.FAILED),
        row("accuracy", "pad", Verdict.PASSED),
        row("fills", "pad", Verdict.SKIPPED),
        row("memory", "", Verdict.PASSED),
    ]
    page = render(Report(planned=len(rows), rows=rows))
    (table,) = re.findall(r'<table class="summary">(.*?)</table>', page, re.DOTALL)
    lines = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line) for line in table.split("<tr>")[1:]]
    told = [[" ".join(re.sub(r"<[^>]*>", "", cell).split()) for cell in line] for line in lines]
    assert told == [
        ["", "accuracy", "fills", "memory"],
        ["pad", "1 passed 1 failed", "1 skipped", ""],
        ["pool", "2", "", ""],
        ["the server", "", "", "1"],
    ]


def test_what_did_not_pass_is_in_the_first_line_and_only_several_servers_are_named() -> None:
    for verdict, style in ((Verdict.PASSED, "passed"), (Verdict.NOTED, "noted"), (Verdict.FAILED, "failed")):
        page = render(Report(planned=1, rows=[row("accuracy", "pad", verdict)]))
        (banner,) = re.findall(r"<p>\s*<b class=(.*?)</p>", page, re.DOTALL)
        assert banner.startswith(f'"{style}">complete')
        assert f"1 {verdict}," in banner
        assert "<code>a:1</code>" not in page
    rows = [
        row("accuracy", "pad", Verdict.FAILED, Origin(target, "910B", "lib.so", "1.2.3")) for target in ("a:1", "b:2")
    ]
    assert re.findall("<code>(.*?)</code>", render(Report(planned=2, rows=rows))) == ["a:1", "b:2"]


def test_runs_with_two_servers_are_compared_server_by_server() -> None:
    first, second = ORIGIN, Origin("b:2", "910B", "lib.so", "1.2.3")
    earlier = [row("fills", "pad", Verdict.PASSED, first), row("fills", "pad", Verdict.FAILED, second)]
    assert changes(earlier, earlier) == []
    now = [row("fills", "pad", Verdict.FAILED, second), row("fills", "pad", Verdict.FAILED, first)]
    assert changes(now, earlier) == [(earlier[0], now[0])], "the ports may be other ones"
