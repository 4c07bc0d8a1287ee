"""Gradients are those of the definition, and the same bits at every vector level, with any number of threads and at any
address."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aclgrad.products import Product
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .programs_in_forks import call_of
from .table_gradients import check_gradients, gradient, print_digests, sweep


@pytest.mark.needs("host memory")
@pytest.mark.timeout(600)
def test_gradients_are_those_of_the_definition(acl: Library) -> None:
    for typed in sweep():
        if not typed.case.name.startswith("timed"):
            assert_defined(typed, gradient(acl, typed), PRODUCT)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("product", "name"),
    [
        (Product.ATLAS_TRAINING, "max_pool2d_with_mask"),  # whose masks have another layout there
        *(
            pytest.param(each, "", marks=pytest.mark.slow)
            for each in (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE, Product.ASCEND_950)
        ),
    ],
)
def test_gradients_are_those_of_the_definition_on_other_products(
    run_program: Callable[..., list[str]], tmp_path: Path, product: Product, name: str
) -> None:
    assert run_program(call_of(check_gradients, str(product), name), {"product": product}) == []


@pytest.fixture
def digests(run_program: Callable[..., list[str]], tmp_path: Path) -> Callable[..., set[str]]:
    def digests(level: str, threads: int, offset: int) -> set[str]:
        return set(run_program(call_of(print_digests, offset), {"vector_level": level, "threads": threads}))

    return digests


@pytest.mark.timeout(600)
def test_gradients_are_the_same_bits_at_the_lowest_and_the_highest_level(
    vector_levels: list[str], digests: Callable[..., set[str]]
) -> None:
    assert vector_levels[0] == "baseline"
    assert digests("baseline", 1, 0) ^ digests(vector_levels[-1], 3, 33) == set()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_gradients_are_the_same_bits_everywhere(vector_levels: list[str], digests: Callable[..., set[str]]) -> None:
    first, highest = digests("baseline", 1, 0), vector_levels[-1]
    others = [(level, 1, 0) for level in vector_levels[1:]]
    for level, threads, offset in (*others, (highest, 2, 0), (highest, 4, 1), ("baseline", 3, 3)):
        assert digests(level, threads, offset) ^ first == set(), (level, threads, offset)


def test_a_level_that_there_is_not_is_refused(
    acl: Library, run_program: Callable[..., list[str]], tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"host": {"vector_level": "mmx"}}')
    program = f"print(acl.aclInit({str(config)!r}.encode()), acl.message())\n"
    (line,) = run_program(program)
    assert line.startswith("100000 ")
    assert "host.vector_level must be one of baseline" in line
