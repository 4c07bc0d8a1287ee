"""The API reference: a page for each public module, from the signatures and docstrings in its source.

It imports none of them, so the page of aclgrad.torch needs no PyTorch.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import aclgrad
from aclgrad.operators.catalogue import OPERATORS

MODULES: Final = (
    "aclgrad",
    "aclgrad.torch",
    "aclgrad.jax",
    "aclgrad.ray",
    "aclgrad.testing",
    "aclgrad.outputs",
    "aclgrad.masks",
    "aclgrad.errors",
)
_SOURCES: Final = Path(aclgrad.__file__).parents[1]
_WIDTH: Final = 100
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Definition(NamedTuple):
    """The statement that defines a name, its module, and its docstring."""

    module: str
    node: ast.stmt
    text: str


def pages() -> Iterator[tuple[str, str]]:
    """Yields path and text of every page."""
    for module in MODULES:
        yield f"api/{module}.md", page(module)


def page(module: str) -> str:
    """Returns the page of a module; names that have their place on another page are left to that."""
    elsewhere = {(each, name) for each in MODULES if each != module for name in _own_names(each)}
    found = {name: definition(module, name) for name in names(module)}
    shown = {name: each for name, each in found.items() if each and (each.module, name) not in elsewhere}
    others = sorted({each.module for name, each in found.items() if each and name not in shown})
    links = "".join(f"\nThe other names are on the page of [{each}]({each}.md).\n" for each in others)
    sections = "".join(_section(name, each) for name, each in shown.items())
    text = f"# {module}\n\n{markdown(ast.get_docstring(_tree(module)) or '')}\n{links}{sections}"
    return re.sub("\n{3,}", "\n\n", text).rstrip() + "\n"


def names(module: str) -> list[str]:
    """Returns the public names of a module: those of `__all__`, or else the classes and functions that it defines."""
    for each in _tree(module).body:
        match each:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return list(ast.literal_eval(value))
    return _own_names(module)


def definition(module: str, name: str) -> Definition | None:
    """Returns the definition that a name of a module leads to, or None if that is a module.

    Raises LookupError if it is not defined in a module of ours.
    """
    if not _file(module).exists():
        raise LookupError(f"{module} is no module of aclgrad")
    body = _tree(module).body
    conditional = (each.body for each in body if isinstance(each, ast.If))
    for each, after in (pair for part in (body, *conditional) for pair in zip_longest(part, part[1:])):
        match each:
            case ast.ClassDef(name=found) | ast.FunctionDef(name=found) if found == name:
                return Definition(module, each, ast.get_docstring(each) or "")
            case ast.ImportFrom(module=str(source), names=aliases) if name in (alias.name for alias in aliases):
                return None if _file(f"{source}.{name}").exists() else definition(source, name)
            case ast.Assign(
                targets=[ast.Name(id=found)], value=ast.Call(args=[ast.Attribute(value=ast.Name(id=private))])
            ) if found == name:
                # A decorated function of a private module beside this one.
                return definition(f"{module}.{private}", name)
            case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                return Definition(module, each, _string(after))
    raise LookupError(f"{module} does not define {name}")


def markdown(docstring: str) -> str:
    """Returns a docstring as Markdown, which it is but for its examples and drawings: they become blocks."""
    parts = []
    for language, paragraphs in groupby(docstring.split("\n\n"), _language):
        text = "\n\n".join(paragraphs)
        parts.append(f"```{language}\n{textwrap.dedent(text)}\n```" if language else text)
    return "\n\n".join(parts)


def _language(paragraph: str) -> str:
    """Returns the language of a paragraph that is an example or a drawing, else nothing."""
    try:
        return "python" if ast.parse(textwrap.dedent(paragraph)).body else ""
    except SyntaxError:
        return "text" if paragraph.startswith("    ") else ""


def _section(name: str, found: Definition) -> str:
    node = found.node
    if isinstance(node, ast.ClassDef):
        return _class(name, found)
    code = _signature(name, _with_values(found.module, node)) if isinstance(node, Function) else ast.unparse(node)
    return f"\n## {name}\n\n{_block(code)}\n\n{markdown(found.text)}\n"


def _class(name: str, found: Definition) -> str:
    classes = list(_ancestry(found))
    members = _members(classes)
    constructor = members.pop("__init__", None)
    # What the two clients share is private.
    bases = [base for base in map(ast.unparse, _bases(found)) if not base.startswith("Base")]
    parts = [f"class {name}({', '.join(bases)})" if bases else f"class {name}"]
    texts = [found.text]
    if constructor is not None:
        parts.append(_signature(name, constructor))
        texts.append(ast.get_docstring(constructor) or "")
    attributes = "".join(f"* {each}\n" for each in _attributes(found, constructor))
    methods = "".join(
        f"\n### {name}.{each}\n\n{_block(_signature(each, method))}\n\n{markdown(_inherited(each, classes))}\n"
        for each, method in members.items()
        if each not in OPERATORS
    )
    if OPERATORS.keys() & members.keys():
        texts.append("It has a method for each of the [operators](../operators/index.md).")
    text = "\n\n".join(markdown(each) for each in texts if each)
    return f"\n## {name}\n\n{_block(chr(10).join(parts))}\n\n{text}\n\n{attributes}{methods}"


def _attributes(found: Definition, constructor: Function | None) -> Iterator[str]:
    """Yields each public attribute: of a dataclass, an enumeration, or with a docstring in the constructor."""
    assert isinstance(found.node, ast.ClassDef)
    is_enumeration = any("Enum" in ast.unparse(base) for base in found.node.bases)
    body = found.node.body
    for each, after in zip_longest(body, body[1:]):
        meaning = f": {' '.join(_string(after).split())}".removesuffix(": ")
        match each:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                yield f"`{ast.unparse(each)}`{meaning}"
            case ast.Assign(targets=[ast.Name()]) if is_enumeration:
                yield f"`{ast.unparse(each)}`{meaning}"
    body = constructor.body if constructor else []
    for each, after in zip_longest(body, body[1:]):
        match each:
            case ast.Assign(targets=[ast.Attribute(attr=name)]) | ast.AnnAssign(target=ast.Attribute(attr=name)) if (
                _string(after)
            ):
                yield f"`{name}`: {' '.join(_string(after).split())}"


def _ancestry(found: Definition) -> Iterator[Definition]:
    """Yields a class and the private ones that it inherits from, the nearest first; public ones have their sections."""
    yield found
    for base in _bases(found):
        try:
            parent = definition(found.module, ast.unparse(base.value if isinstance(base, ast.Subscript) else base))
        except LookupError:
            continue
        if parent is not None and "._" in parent.module:
            yield from _ancestry(parent)


def _bases(found: Definition) -> list[ast.expr]:
    assert isinstance(found.node, ast.ClassDef)
    return found.node.bases


def _members(classes: list[Definition]) -> dict[str, Function]:
    """Returns the constructor, and the public methods and properties, each of the nearest class that has it."""
    members: dict[str, Function] = {}
    for each in classes:
        assert isinstance(each.node, ast.ClassDef)
        for node in each.node.body:
            if isinstance(node, Function) and (node.name == "__init__" or not node.name.startswith("_")):
                members.setdefault(node.name, _with_values(each.module, node))
    return members


def _with_values(module: str, node: Function) -> Function:
    """Returns a function whose defaults are values instead of constants of its module."""
    node = deepcopy(node)
    node.args.defaults = [_value(module, each) for each in node.args.defaults]
    node.args.kw_defaults = [each and _value(module, each) for each in node.args.kw_defaults]
    return node


def _value(module: str, default: ast.expr) -> ast.expr:
    if not isinstance(default, ast.Name):
        return default
    match definition(module, default.id):
        case Definition(node=ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value)):
            # A member of an enumeration is known by its name.
            return default if isinstance(value, ast.Attribute) else value
    return default


def _inherited(method: str, classes: list[Definition]) -> str:
    """Returns the docstring of a method, that of the nearest class that has one for it."""
    found = (_members([each]).get(method) for each in classes)
    return next((text for node in found if node is not None and (text := ast.get_docstring(node))), "")


def _signature(name: str, node: Function) -> str:
    """Returns a signature as in the source, with a line for each parameter if it is long."""
    returns = ast.unparse(node.returns) if node.returns else ""
    if any(ast.unparse(each) == "property" for each in node.decorator_list):
        return f"{name}: {returns}"
    arguments = node.args
    arguments.args = [each for each in arguments.args if each.arg not in ("self", "cls")]
    for each in arguments.kwonlyargs:
        if each.arg == "client":
            each.annotation = ast.Name("Client")  # PyTorch's graph has its number
    start = f"async {name}" if isinstance(node, ast.AsyncFunctionDef) else name
    end = f" -> {returns}" if returns not in ("", "None") else ""
    line = f"{start}({ast.unparse(arguments)}){end}"
    if len(line) <= _WIDTH:
        return line
    return f"{start}(\n{''.join(f'    {each},{chr(10)}' for each in _separate(ast.unparse(arguments)))}){end}"


def _separate(arguments: str) -> Iterator[str]:
    """Yields the parameters; a comma within brackets separates none."""
    depth, start = 0, 0
    for at, letter in enumerate(f"{arguments},"):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            yield arguments[start:at].strip()
            start = at + 1


def _block(code: str) -> str:
    return f"```python\n{code}\n```"


def _string(after: ast.stmt | None) -> str:
    """Returns the docstring that a statement is, or nothing."""
    match after:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
    return ""


def _own_names(module: str) -> list[str]:
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [each.name for each in _tree(module).body if isinstance(each, kinds) and not each.name.startswith("_")]


def _file(module: str) -> Path:
    path = _SOURCES.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_file(module).read_text())
