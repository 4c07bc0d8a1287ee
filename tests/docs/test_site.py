"""The parts of the site that decide something: what a picture shows, where links lead, what counts as broken."""

import re
from pathlib import Path

import pytest

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from tests import made_up_value
from tests.docs.snippets import ROOT
from website import api
from website.links import problems
from website.navigation import HOME, home
from website.operators import pages
from website.operators.flows import flow_of
from website.operators.sums import lines_of, sum_of
from website.pictures import PICTURES, SCREENS
from website.staging import stage


def test_a_flow_is_that_of_the_operator() -> None:
    # Four cells, padded by two copies of the first on the left and three of the last on the right.
    flow = flow_of(OPERATORS["replication_pad1d_backward"])
    assert (flow.source, flow.target) == ((1, 1, 9), (1, 1, 4))
    sources = {target[2]: sorted(source[2] for source in terms) for target, terms in flow.weights.items()}
    assert sources == {0: [0, 1, 2], 1: [3], 2: [4], 3: [5, 6, 7, 8]}
    assert {weight for terms in flow.weights.values() for weight in terms.values()} == {1.0}


def test_a_sum_is_as_short_as_a_cell() -> None:
    cases = {
        "a": {"a": 1.0},
        "a/4": {"a": 0.25},
        "a+b/6": {"a": 1.0, "b": 1 / 6},
        "(a+b)/9": {"a": 1 / 9, "b": 1 / 9},
        ".31a+.02b": {"a": 0.3125, "b": 0.023},
    }
    assert {"".join(sum_of(weights)): weights for weights in cases.values()} == cases
    assert lines_of(["a", "+b", "+c", "+d"], 4) == ["a+b+c", "+d"]
    assert lines_of(["a/4"] + ["+b/4"] * 5, 6) == ["6", "terms"]


def test_what_a_page_links_to_comes_along(tmp_path: Path) -> None:
    root, staged = tmp_path / "root", tmp_path / "staged"
    texts = {
        HOME: "[guide](../docs/guide.md#start) [code](../src/a.py) [both](../src) [made](../made.md) [](https://a.org/a.md)",
        "docs/guide.md": "[readme](../README.md) ![picture](a.svg)",
        "README.md": "[guide](docs/guide.md)",
        "src/a.py": "print(1)\n",
        "docs/a.svg": "<svg/>",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    stage([HOME], {"made.md": "[guide](docs/guide.md)"}, root, staged)
    pages = {str(file.relative_to(staged)): file.read_text() for file in staged.rglob("*.md")}
    assert set(pages) == {"index.md", "made.md", "README.md", "docs/guide.md", "src/a.py.md", "src/index.md"}
    assert (staged / "docs/a.svg").read_text() == "<svg/>"
    links = (
        "[guide](docs/guide.md#start) [code](src/a.py.md) [both](src/index.md) [made](made.md) [](https://a.org/a.md)"
    )
    assert pages["index.md"].startswith(links)
    assert "[readme](../README.md) ![picture](a.svg)" in pages["docs/guide.md"]
    assert "print(1)" in pages["src/a.py.md"]
    assert "[a.py](a.py.md)" in pages["src/index.md"]


def test_a_broken_site_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.html").write_text('<h1 id="top">B</h1><a href="../a.html">a</a><a href="#top">up</a>')
    (tmp_path / "a.html").write_text(
        '<a href="sub/b.html#top">b</a><a href="sub/b.html#gone">b</a><a href="c.html">c</a>'
        '<a href="https://example.org">out</a><img src="d.png"><script src="https://example.org/x.js"></script>'
    )
    assert list(problems(tmp_path)) == [
        "a.html fetches https://example.org/x.js from elsewhere",
        "a.html points to sub/b.html#gone, which does not exist",
        "a.html points to c.html, which does not exist",
        "a.html points to d.png, which does not exist",
    ]


def test_every_public_name_is_in_the_api_reference() -> None:
    """With a section on the page of its module or another one, or at least in the words of its module."""
    pages = dict(api.pages())
    sections = {name for text in pages.values() for name in re.findall("^## (.*)$", text, re.MULTILINE)}
    missing = {name for module in api.MODULES for name in api.names(module)} - sections
    assert missing <= {"errors", "masks", "reference"}
    assert all(re.search(rf"`(aclgrad\.)?{name}`", pages["api/aclgrad.md"]) for name in missing)


def test_a_class_has_the_members_and_docstrings_that_it_inherits() -> None:
    page = api.page("aclgrad")
    (client,) = (each for each in page.split("\n## ") if each.startswith("Client\n"))
    methods = re.findall(r"^### Client\.(\w+)$", client, re.MULTILINE)
    public = {name for name in vars(aclgrad.Client) if not name.startswith("_")}
    assert public <= set(methods)
    assert not OPERATORS.keys() & set(methods)
    assert "Returns an empty batch" in client
    assert "    timeout_s: float | None=" in client


def test_examples_and_drawings_of_docstrings_become_blocks() -> None:
    text = "What it is.\n\nwith a() as b:\n    b.c()\n\n    root\n    └── leaf\n\nRaises `Error`."
    assert api.markdown(text) == (
        "What it is.\n\n```python\nwith a() as b:\n    b.c()\n```\n\n```text\nroot\n└── leaf\n```\n\nRaises `Error`."
    )


def test_the_home_page_has_the_number_of_operators_and_pictures_of_this_build() -> None:
    text = home((ROOT / HOME).read_text())
    assert f"[{len(OPERATORS)} operators by family](../operators/index.md)" in text
    shown = set(re.findall(r'_static/([\w-]+)\.png"', text))
    assert shown == {f"{each.name}-{screen}" for each in PICTURES for screen in SCREENS}
    assert list((ROOT / "website").rglob("*.png")) == []  # they would be of another day


def test_an_operator_of_values_has_a_page_without_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    method = lambda self, indices, table, *, timeout_s=None: None  # noqa: E731
    monkeypatch.setattr(aclgrad.Client, made_up_value.NAME, method, raising=False)
    with made_up_value.registered():
        text = pages.page(made_up_value.SPEC)
    assert "def value(indices: np.ndarray, table: np.ndarray)" in text
    assert "    value = client.made_up_rows(" in text
    assert "| float32 | 0 | 0 |" in text
    assert "<svg" not in text
