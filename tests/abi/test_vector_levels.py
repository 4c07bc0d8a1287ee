"""Gradients are those of the definition, and the same bits at every vector level, with any number of threads and at any
address."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from aclgrad.products import Product
from tools.abi.acl import Library

from .table_gradients import assert_defined, gradient, sweep


@pytest.mark.needs("host memory")
@pytest.mark.timeout(600)
def test_gradients_are_those_of_the_definition(acl: Library) -> None:
    for typed in sweep():
        if not typed.case.name.startswith("timed"):
            assert_defined(typed, gradient(acl, typed))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("product", [Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE, Product.ASCEND_950])
def test_gradients_are_those_of_the_definition_on_other_products(
    run_program: Callable[..., list[str]], tmp_path: Path, product: Product
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"host": {"product": product}}))
    program = f"from tests.abi.table_gradients import check_gradients\ncheck_gradients(acl, {str(product)!r})\n"
    assert run_program(program, ACL_HOST_CONFIG=str(config)) == []


@pytest.mark.timeout(600)
def test_gradients_are_the_same_bits_everywhere(
    vector_levels: list[str], run_program: Callable[..., list[str]], tmp_path: Path
) -> None:
    levels = vector_levels
    assert levels[0] == "baseline"
    printed = {}
    for level, threads, offset in [
        *((level, 1, 0) for level in levels),
        (levels[-1], 2, 0),
        (levels[-1], 4, 1),
        ("baseline", 3, 3),
        (levels[-1], 1, 33),
    ]:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"host": {"vector_level": level, "threads": threads}}))
        program = f"from tests.abi.table_gradients import print_digests\nprint_digests(acl, {offset})\n"
        printed[level, threads, offset] = set(run_program(program, ACL_HOST_CONFIG=str(config)))
    first = printed["baseline", 1, 0]
    assert {run: lines ^ first for run, lines in printed.items() if lines != first} == {}


def test_a_level_that_there_is_not_is_refused(
    acl: Library, run_program: Callable[..., list[str]], tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"host": {"vector_level": "mmx"}}')
    program = f"print(acl.aclInit({str(config)!r}.encode()), acl.message())\n"
    (line,) = run_program(program)
    assert line.startswith("100000 ")
    assert "host.vector_level must be one of baseline" in line
