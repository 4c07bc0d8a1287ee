"""The tables of README, ARCHITECTURE.md and docs/check.md that follow from the source."""

import ast
import inspect
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from aclgrad.judge.check.command import CHECKS
from aclgrad.operators.spec import OperatorKind, OperatorSpec
from aclgrad.products import Product

ROOT: Final = Path(__file__).parents[2]
SERVER: Final = "aclgrad_server"
FAMILIES: Final = {
    "convolution": ("convolution",),
    "matrix products, sums": ("mat_mul", "matmul", "mm", "reduce_sum"),
    "average pooling": ("avg_pool",),
    "max pooling": ("max_pool",),
    "unpooling": ("unpool",),
    "padding": ("_pad",),
    "upsampling, RoI align, grid sampling": ("upsample", "roi_align", "grid_sampler"),
    "normalisation": ("_norm",),
    "attention": ("attention",),
    "softmax, embedding": ("softmax", "embedding"),
    "losses": ("loss", "cross_entropy", "kl_div"),
    "activations, dropout": (
        "dropout",
        "silu",
        "sigmoid",
        "tanh",
        "relu",
        "hardswish",
        "threshold",
        "gelu",
        "glu",
        "elu",
        "shrink",
        "mish",
        "softplus",
    ),
    "copies, positions": ("inplace_", "cat", "gather", "index_", "scatter_"),
    "arithmetic with a number": ("adds", "muls", "divs", "_scalar", "clamp"),
    "arithmetic": (
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "s_where",
        "eq_tensor",
        "gt_tensor",
        "mean",
        "amax",
    ),
    "functions": ("neg", "exp", "log", "sqrt", "reciprocal", "abs"),
}
"""What the names of a family's operators contain; the README has a row for each, and one for all others."""


def files(specs: Sequence[OperatorSpec]) -> dict[Path, bytes]:
    """Returns each page with its table."""
    return {
        ROOT / "README.md": with_table(ROOT / "README.md", "operators", family_table(specs)),
        ROOT / "ARCHITECTURE.md": with_table(ROOT / "ARCHITECTURE.md", "packages", package_table()),
        ROOT / "docs/check.md": with_table(ROOT / "docs/check.md", "checks", check_table()),
    }


def with_table(page: Path, subject: str, table: str) -> bytes:
    """Returns the page with the table between the two marks of its subject."""
    start, end = f"<!-- {subject}: written by `make generate` -->\n", f"<!-- end of {subject} -->\n"
    before, _, rest = page.read_text().partition(start)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{page.name} lacks the line {start.strip()} or {end.strip()}")
    return "".join([before, start, table, end, after]).encode()


def family_of(spec: OperatorSpec) -> str:
    """Returns the first family whose words the operator's name contains."""
    return next((name for name, words in FAMILIES.items() if any(word in spec.name for word in words)), "other")


def family_table(specs: Sequence[OperatorSpec]) -> str:
    """Returns a row for each family: the dtypes of its operators, and which of them each product has.

    Forward functions have a row of their own beside the gradients of their family.
    """
    families: dict[str, list[OperatorSpec]] = {}
    of_gradients = {family_of(spec) for spec in specs if spec.kind is OperatorKind.GRADIENT}
    for spec in sorted(specs, key=lambda each: each.kind is OperatorKind.VALUE):
        family = family_of(spec)
        is_beside = spec.kind is OperatorKind.VALUE and family in of_gradients
        families.setdefault(f"{family}, forward" if is_beside else family, []).append(spec)
    served = [product for product in Product if any(product in each.products for each in specs)]
    heads = ("family", "operators", "dtypes of all", "of some", *served)
    rows = [f"| {' | '.join(heads)} |", f"|---|---|---|---|{':-:|' * len(served)}"]
    for family, members in families.items():
        cells = [having(members, product) for product in served]
        rows.append(f"| {' | '.join([family, listed(members), *common_dtypes(members), *cells])} |")
    return "".join(f"{row}\n" for row in rows)


def common_dtypes(specs: Iterable[OperatorSpec]) -> tuple[str, str]:
    """Returns the dtypes that each operator takes on each product that has it, and those that only some take."""
    taken = [set(each.dtypes_on(product)) for each in specs for product in each.products]
    always = set.intersection(*taken)
    return ", ".join(sorted(always)), ", ".join(sorted(set.union(*taken) - always))


def having(specs: list[OperatorSpec], product: Product) -> str:
    """Returns a dot if the product has all of the operators, or else the names of those that it has."""
    found = [each for each in specs if product in each.products]
    return "●" if found == specs else listed(found)


def listed(specs: Iterable[OperatorSpec]) -> str:
    return ", ".join(f"`{each.name.removesuffix('_backward')}`" for each in specs)


def check_table() -> str:
    """Returns a row for each check of `aclgrad check`, with its docstring."""
    texts = {name: " ".join((inspect.getdoc(check) or "").split()) for name, check in CHECKS.items()}
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in texts.items())
    return f"| check | what is right |\n|---|---|\n{rows}"


def package_table() -> str:
    """Returns a row for each package of the server in the linter's order, with its docstring's first sentence."""
    rows = "".join(f"| `{name}` | {subject} |\n" for layer in layers() for name, subject in layer.items())
    return f"| package | subject |\n|---|---|\n{rows}"


def layers() -> Iterator[dict[str, str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == [SERVER])
    for layer in layers:
        sources = {name: ROOT / "server/src" / SERVER / name / "__init__.py" for name in layer.split(" | ")}
        yield {name: subject_of(source) for name, source in sources.items() if source.exists()}


def subject_of(source: Path) -> str:
    lines = (ast.get_docstring(ast.parse(source.read_text())) or "").partition("\n\n")[0]
    return " ".join(lines.split())
