"""An operator's folder that is not complete is told by name, with what to add where."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import aclgrad.operators as package
from aclgrad.operators import families
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from tools.generate.completeness import problems
from tools.generate.homes import homes

GOOD = OPERATORS["adaptive_avg_pool2d_backward"]
SPEC = """
from dataclasses import replace
from aclgrad.operators.{good}.spec import SPEC
SPEC = replace(SPEC, name="made_up", symbol="aclnnMadeUp")
"""
DEFINITION = "from aclgrad.operators.{good}.definition import backward, forward"
SAMPLES = "from aclgrad.operators.{good}.samples import SAMPLES"
ROWS = {
    "spec": f"{SPEC}\nSPECS = (SPEC,)",
    "definition": f"from aclgrad.operators.definitions import Definition\n{DEFINITION}\n"
    "DEFINITIONS = {{'made_up': Definition(backward, forward)}}",
    "samples": f"{SAMPLES}\nSAMPLES = {{{{'made_up': SAMPLES}}}}",
}
Folder = Callable[..., list[str]]


def replaced(change: str) -> str:
    """Returns a file with other samples than the good operator's."""
    return f"{SAMPLES}\nfrom dataclasses import replace\nSAMPLES = replace(SAMPLES, {change})"


def test_every_folder_and_row_is_complete_and_listed() -> None:
    assert list(problems()) == []
    assert sorted(spec.name for home in homes() for spec in home.specs()) == list(OPERATORS)


def told_of(root: Path, parts: dict[str, str | None]) -> list[str]:
    """Returns the problems of a folder with these files; None leaves one out."""
    (root / "made_up").mkdir()
    for part, text in parts.items():
        if text is not None:
            (root / f"made_up/{part}.py").write_text(text.format(good=GOOD.name))
    return list(problems())


@pytest.fixture
def _made_up() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if "made_up" in name and name.startswith(package.__name__)]:
        del sys.modules[name]


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _made_up: None) -> Folder:
    """Returns the problems of an operator's folder with changed files."""
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    return lambda **changes: told_of(tmp_path, {"spec": SPEC, "definition": DEFINITION, "samples": SAMPLES} | changes)


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _made_up: None) -> Folder:
    """Returns the problems of a family of one operator with changed files."""
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    return lambda **changes: told_of(tmp_path, ROWS | changes)


def test_two_operators_of_one_symbol_are_told(made_up: Folder) -> None:
    spec = SPEC.replace('symbol="aclnnMadeUp"', f'symbol="{GOOD.symbol}"')
    assert made_up(spec=spec) == [
        f"operators {GOOD.name} and made_up have the symbol {GOOD.symbol}; change it in one spec.py"
    ]


def test_a_folder_without_sources_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    (tmp_path / "left_behind/__pycache__").mkdir(parents=True)
    assert list(problems()) == []


def test_a_complete_folder_is_found(made_up: Folder) -> None:
    assert made_up() == []
    assert "made_up" in [home.path.name for home in homes()]


def test_a_case_may_leave_out_what_is_optional(made_up: Folder) -> None:
    optional = "SPEC = replace(SPEC, inputs=(SPEC.inputs[0], replace(SPEC.inputs[1], is_optional=True)))"
    samples = replaced("cases=(replace(SAMPLES.cases[0], shapes={{'grad_output': (1, 2, 3)}}),)")
    assert made_up(spec=SPEC + optional, samples=samples) == []


VALUE = """
from aclgrad.operators.spec import OperatorKind
SPEC = replace(SPEC, kind=OperatorKind.VALUE)
"""


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("", r"inputs\[grad_output\].shape is \(2, 1, 4, 5\), but attributes\[input_size\] .* is \(1, 1, 4, 5\)"),
        (", check=lambda *_: ()", "axis 0 of grad_input stays 1"),
    ],
)
def test_an_attribute_that_repeats_the_batch_is_told(made_up: Folder, more: str, reason: str) -> None:
    good = "upsample_nearest2d_backward"
    spec, definition, samples = (each.replace("{good}", good) for each in (SPEC, DEFINITION, SAMPLES))
    axes = "from aclgrad.operators.batch_axes import along_the_first\n"
    axes += f"SPEC = replace(SPEC, batch_axes=along_the_first{more})"
    (told,) = made_up(spec=spec + axes, definition=definition, samples=samples)
    assert re.fullmatch(rf"operator made_up: two calls do not join, because {reason}; let batch_axes in .*", told)


def test_a_value_needs_no_forward_function(made_up: Folder) -> None:
    assert made_up(spec=SPEC + VALUE, definition=f"{DEFINITION}\nvalue = backward\ndel backward, forward") == []


def test_a_value_is_defined_as_one(made_up: Folder) -> None:
    (told,) = made_up(spec=SPEC + VALUE)
    assert told.startswith("operator made_up: definition.py has no value; it has to have backward and forward")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"spec": None}, "operator made_up has no spec.py; add .*/made_up/spec.py with SPEC, an OperatorSpec"),
        ({"samples": None}, "operator made_up has no samples.py; add .* with SAMPLES, a Samples with cases"),
        ({"definition": "backward = max"}, "operator made_up: definition.py has no forward; it has to have backward"),
        ({"samples": "import nothing_like_it"}, "made_up: samples.py does not load: No module named 'nothing_like_it'"),
        ({"spec": "from aclgrad.operators.{good}.spec import SPEC"}, "made_up: spec.py has the name 'adaptive_"),
        (
            {"spec": SPEC + "SPEC = replace(SPEC, inputs=(replace(SPEC.inputs[0], dtypes={{'910C': ('int8',)}}),))"},
            "spec.py does not load: operator made_up: input grad_output is for the unknown product '910C'; the prod",
        ),
        (
            {"samples": replaced("cases=()")},
            "operator made_up has no cases; add some to SAMPLES.cases in its samples.py",
        ),
        (
            {"samples": replaced("cases=(replace(SAMPLES.cases[0], shapes={{}}),)")},
            f"operator made_up: case {samples_of(GOOD.name).cases[0].name} has to give the shapes of grad_output, self",
        ),
        (
            {"definition": "def backward(grad_output, input): ...\ndef forward(input, padding): ..."},
            "operator made_up: definition.forward has to take grad_output, input",
        ),
        (
            {"samples": replaced("timed={{}}")},
            "operator made_up: SAMPLES.timed has to have a case for each of 16 KB, 6 MB, 100 MB, 1 GB",
        ),
        (
            {"definition": f"{DEFINITION}\ndef backward(grad_output, input): raise NotImplementedError('later')"},
            "operator made_up fails when it is tried on .*: NotImplementedError: later",
        ),
        (
            {"definition": f"{DEFINITION}\ndef forward(grad_output, input): return 1 / 0"},
            "operator made_up fails when it is tried on .*: ZeroDivisionError: division by zero",
        ),
        (
            {"definition": f"{DEFINITION}\ndef backward(grad_output, input): return grad_output"},
            r"backward returns the shapes \[\(1, 1, 2, 3\)\], and the outputs of spec.py have \[\(1, 1, 4, 5\)\]",
        ),
        (
            {"spec": SPEC + "SPEC = replace(SPEC, outputs=(replace(SPEC.outputs[0], infer=lambda given: 1 / 0),))"},
            "operator made_up fails when it is tried on .*: ZeroDivisionError: division by zero",
        ),
        (
            {"spec": SPEC + "SPEC = replace(SPEC, summary='UNWRITTEN: what it does')"},
            "operator made_up: line 5 of spec.py is still the stub's: SPEC = .*UNWRITTEN: what it does",
        ),
    ],
)
def test_what_is_missing_is_told(made_up: Folder, changes: dict[str, str | None], told: str) -> None:
    found = made_up(**changes)
    assert len(found) == 1
    assert re.search(told, found[0])


@pytest.mark.parametrize("long", ["()", "SAMPLES.cases", "(SAMPLES.timed['16 KB'],)"])
def test_an_operator_without_long_calls_is_told_on_each_product(made_up: Folder, long: str) -> None:
    """Short cases are no long ones."""
    found = made_up(samples=replaced(f"long=lambda cells: {long}"))
    assert len(found) == len(GOOD.products)
    assert re.match(
        "operator made_up has no long call on product .*; let SAMPLES.long in its samples.py yield", found[0]
    )


def test_a_complete_family_is_found(family: Folder) -> None:
    assert family() == []
    assert "made_up" in [spec.name for home in homes() for spec in home.specs()]


def test_a_family_that_shares_code_alone_has_no_operators(family: Folder) -> None:
    assert family(spec=None, definition=None, samples="MOST = 1") == []
    assert "made_up" not in [home.path.name for home in homes()]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"spec": None}, "family made_up has no spec.py; add .*/made_up/spec.py with SPECS, a tuple of OperatorSpec"),
        (
            {"samples": "SAMPLES = ()"},
            "family made_up: samples.py has no SAMPLES; it has to have SAMPLES, a Samples for",
        ),
        ({"samples": "import nothing_like_it"}, "family made_up: samples.py does not load: No module named 'nothing_"),
        (
            {"definition": "DEFINITIONS = {{}}"},
            "operator made_up has no row in DEFINITIONS of made_up/definition.py; add one",
        ),
        ({"samples": "SAMPLES = {{}}"}, "operator made_up has no row in SAMPLES of made_up/samples.py; add one"),
        (
            {"samples": ROWS["samples"].replace(": SAMPLES}", ": SAMPLES, 'other': SAMPLES}")},
            "family made_up: samples.py has a row of other, and SPECS of spec.py has none; remove it or add one",
        ),
        (
            {
                "definition": ROWS["definition"].replace(
                    "Definition(backward, forward)", "Definition(lambda x: x, forward)"
                )
            },
            "operator made_up: definition.backward has to take grad_output, input",
        ),
        (
            {"spec": ROWS["spec"].replace("aclnnMadeUp", GOOD.symbol)},
            f"operators {GOOD.name} and made_up have the symbol {GOOD.symbol}; change it in one spec.py",
        ),
        (
            {"spec": SPEC + "SPEC = replace(SPEC, summary='UNWRITTEN: what it does')\nSPECS = (SPEC,)"},
            "family made_up: line 5 of spec.py is still the stub's: SPEC = .*UNWRITTEN: what it does",
        ),
    ],
)
def test_what_is_wrong_with_a_row_is_told(family: Folder, changes: dict[str, str | None], told: str) -> None:
    found = family(**changes)
    assert any(re.search(told, each) for each in found), found
