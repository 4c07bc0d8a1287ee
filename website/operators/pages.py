"""The pages of the operators: a table of all, and one page each."""

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

import aclgrad
from aclgrad.operators.cases import served_dtypes
from aclgrad.operators.catalogue import FAMILIES, OPERATORS
from aclgrad.operators.definitions import Array
from aclgrad.operators.parts import definition_of, samples_of
from aclgrad.operators.spec import InputSpec, OperatorKind, OperatorSpec, Tolerance, list_of
from aclgrad.operators.subjects import SUBJECTS, subject_of
from aclgrad.products import Product
from website.operators import arguments
from website.operators.flows import LEADING, flow_of, pictured
from website.operators.mistakes import mistakes, product_of
from website.operators.pictures import picture

_EQUIVALENT: Final = re.compile(r" \((?P<library>PyTorch|torchvision|torch_npu): (?P<name>(?:[^()]|\([^()]*\))*)\)")
_FAMILIES: Final = "aclgrad.operators.families."
_TEMPLATES: Final = Environment(
    loader=PackageLoader("website.operators", "."),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)


def pages() -> Iterator[tuple[str, str]]:
    """Yields path and text of every page."""
    shared = {name: values for name, specs in FAMILIES.items() if len(values := list(filter(_is_value, specs))) > 1}
    places = {spec.name: f"{name}.md#{spec.name}" for name, specs in shared.items() for spec in specs}
    alone = [spec for spec in OPERATORS.values() if spec.name not in places]
    places |= {spec.name: f"{spec.name}.md" for spec in alone}
    subjects: dict[str, list[tuple[OperatorSpec, str, str]]] = {each: [] for each in SUBJECTS}
    for spec in OPERATORS.values():
        subjects.setdefault(subject_of(spec.name), []).append((spec, equivalent(spec), places[spec.name]))
    titles = {name: _title(name) for name in shared}
    titles |= {spec.name: spec.name.removesuffix("_backward") for spec in alone}
    served = [product for product in Product if any(product in each.products for each in OPERATORS.values())]
    index = _TEMPLATES.get_template("index.md.j2")
    of_pages = sorted((title, name) for name, title in titles.items())
    yield "operators/index.md", index.render(count=len(OPERATORS), subjects=subjects, products=served, titles=of_pages)
    for spec in alone:
        yield f"operators/{spec.name}.md", page(spec)
    for name, specs in shared.items():
        about, _, _ = str(import_module(f"{_FAMILIES}{name}").__doc__).partition(": an operator is a row")
        parts = (f"# {_title(name)}", about.strip().rstrip(".") + ".", *(page(spec, "##") for spec in specs))
        yield f"operators/{name}.md", "\n\n".join(parts)


def _is_value(spec: OperatorSpec) -> bool:
    return spec.kind is OperatorKind.VALUE


def _title(family: str) -> str:
    return family.replace("_", " ").capitalize()


def page(spec: OperatorSpec, level: str = "#") -> str:
    """Returns the page of one operator, or with a lower level its part of a page."""
    typed = pictured(spec)
    return _TEMPLATES.get_template("operator.md.j2").render(
        spec=spec,
        level=level,
        formula=_EQUIVALENT.sub("", spec.formula).rstrip("."),
        equivalent=equivalent(spec),
        picture=drawn(spec),
        shown=", ".join(f"`{name}={value!r}`" for name, value in typed.case.attributes.items()),
        example=example(spec),
        signature=signature(spec),
        definition=definition(spec),
        tolerances=tolerances(spec),
        routes=routes(spec),
        arguments=arguments,
        mistakes=list(mistakes(typed)),
        product=product_of(spec),
        products=list(Product),
    )


def tolerances(spec: OperatorSpec) -> list[tuple[str, Tolerance]]:
    """Returns the tolerance of the first sample call of each dtype that takes no route, and products with another."""
    found: dict[str, dict[Tolerance, list[Product]]] = {dtype: {} for dtype in spec.dtypes}
    for product in sorted(spec.products):
        plain = [(dtype, each) for dtype, each in _of_samples(spec, product) if each.route is None]
        for dtype, first in dict(reversed(plain)).items():
            found[dtype].setdefault(first, []).append(product)
    rows = []
    for dtype, products in found.items():
        if not products:
            continue  # every call takes a route
        usual = max(products, key=lambda each: len(products[each]))
        others = (each for each in products if each is not usual)
        rows += [(dtype, usual), *((f"{dtype} on {', '.join(products[each])}", each) for each in others)]
    return rows


def routes(spec: OperatorSpec) -> list[tuple[str, str, str, float]]:
    """Returns dtypes, products, precision and largest error of the routes that the sample calls take."""
    found: dict[tuple[str, str], tuple[set[Product], float]] = {}
    for product in spec.products:
        for dtype, tolerance in _of_samples(spec, product):
            if route := tolerance.route:
                products, most = found.get((dtype, route.precision.name), (set(), 0.0))
                found[dtype, route.precision.name] = products | {product}, max(most, route.relative)
    return [(dtype, ", ".join(sorted(on)), precision, most) for (dtype, precision), (on, most) in sorted(found.items())]


def _of_samples(spec: OperatorSpec, product: Product) -> Iterator[tuple[str, Tolerance]]:
    for case in samples_of(spec.name).cases:
        for dtype in served_dtypes(spec, case, product):
            yield dtype, spec.tolerance(case.arguments(spec, dtype), product, dtype)


def drawn(spec: OperatorSpec) -> str:
    """Returns the picture of the first gradient; none without a case for it, or if elements depend on all others."""
    samples = samples_of(spec.name)
    if samples.picture is None or samples.has_signed_weights or _is_value(spec):
        return ""
    if len(pictured(spec).case.shapes["grad_output"]) <= LEADING:
        return ""
    return picture(flow_of(spec), ("grad_output", spec.outputs[0].name))


def equivalent(spec: OperatorSpec) -> str:
    """Returns what the operator is in PyTorch, torchvision or torch_npu, which its formula has to say."""
    found = _EQUIVALENT.search(spec.formula)
    if found is None:
        raise ValueError(f"operator {spec.name}: its formula has to say '(PyTorch: NAME)'")
    words, _, name = found["name"].rpartition(" ")
    return " ".join(each for each in (f"{found['library']}:", words, f"`{name}`") if each)


def example(spec: OperatorSpec) -> str:
    """Returns a program that makes the call of the picture."""
    typed = pictured(spec)
    arrays = typed.arrays()
    sent = {
        each.name: _argument(each, arrays[each.name], len(arrays) == 1)
        for each in spec.inputs_of(arrays)
        if each.name in arrays
    }
    lists = {
        each.name: f"[{', '.join(sent[one] for one in sent if list_of(one) == each.name)}]"
        for each in spec.inputs
        if each.is_list
    }
    written = sent | lists
    given = [f"{each.python_name}={written[each.name]}" for each in spec.inputs if each.name in written]
    given += [f"{name}={value!r}" for name, value in typed.case.attributes.items()]
    result = spec.kind.name.lower() + ("" if len(spec.outputs) == 1 else "s")
    return (
        "import aclgrad, numpy as np\n\n"
        'with aclgrad.Client("127.0.0.1:50051") as client:\n'
        f"    {result} = client.{spec.name}(\n"
        + "".join(f"        {each},\n" for each in given)
        + f"    )\nprint({result})\n"
    )


def _argument(spec: InputSpec, array: Array, is_alone: bool) -> str:
    if spec.unread_on is not None:
        return f'aclgrad.TensorType.of("{array.dtype}", {array.shape})' if is_alone else str(array.shape)
    if spec.name == "grad_output":
        return f"np.ones({array.shape}, np.{array.dtype})"
    listed = str(array.tolist()).replace("inf", "np.inf")
    return f"np.array({listed}, np.{array.dtype})"


def signature(spec: OperatorSpec) -> str:
    """Returns the client's method with its parameters and defaults."""
    _, *parameters = inspect.signature(getattr(aclgrad.Client, spec.name)).parameters.values()
    bare = (each.replace(annotation=inspect.Parameter.empty) for each in parameters)
    return f"{spec.name}({', '.join(map(str, bare))})"


def definition(spec: OperatorSpec) -> str:
    """Returns the source of the function that computes the result, and of what it calls of its family."""
    compute = definition_of(spec.name).compute
    called = [each for each in inspect.getclosurevars(compute).globals.values() if inspect.isfunction(each)]
    shown: list[Callable[..., Any]] = [compute, *(each for each in called if each.__module__.startswith(_FAMILIES))]
    return "\n\n".join(map(inspect.getsource, shown))
