"""Classes and functions as their source has them: signature, docstring, members. Nothing is imported for it, so that
no optional package is needed."""

import ast
import inspect
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"
MANY = 6
"""How many fields of a long list a signature shows."""
Definition = ast.ClassDef | ast.FunctionDef


@cache
def source_of(module: str) -> tuple[ast.Module, list[str]]:
    path = SRC / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = path.read_text(encoding="utf-8")
    return ast.parse(text), text.splitlines()


def public(module: str) -> list[str]:
    """The names a module is for: those of its `__all__`, or else the classes and functions it defines itself."""
    tree, _ = source_of(module)
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return [node.name for node in tree.body if isinstance(node, Definition) and not node.name.startswith("_")]


def find(module: str, name: str) -> tuple[str, Definition] | None:
    """A class or function and the module that defines it, where the named one only hands it on."""
    tree, _ = source_of(module)
    for node in ast.walk(tree):
        if node in tree.body and isinstance(node, Definition) and node.name == name:
            return module, node
        ours = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("marvel")
        if ours and any((alias.asname or alias.name) == name for alias in node.names):
            return find(node.module, name)
    return None


def described(module: str, name: str, members: Sequence[str] | None = None) -> str:
    """A directive of Sphinx's for a class or function, as it is imported from `module`; with these members, or all."""
    found = find(module, name)
    if found is None:
        raise LookupError(f"{module} has no class or function {name}")
    home, node = found
    if isinstance(node, ast.FunctionDef):
        return _directive("function", f"{module}.{name}{signature(node)}", [docstring(node)], 3)
    initial = _initial(home, node)
    fields = _fields(home, node) if initial is None else []
    parts = [docstring(node)]
    if fields:
        parts.append("\n".join(line for _, line in fields))
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and _shown(one)]
    inner = [_member(one) for one in methods if members is None or one.name in members]
    calls = [call for call, _ in fields]
    calls = [*calls[:MANY], "..."] if len(calls) > 2 * MANY else calls  # the list below has them all
    given = signature(initial, bound=True) if initial else f"({', '.join(calls)})" if calls else ""
    return _directive("class", f"{module}.{name}{given}", [*parts, *inner], 4)


def signature(node: ast.FunctionDef, bound: bool = False) -> str:
    """`(n: int, classes: int) -> Tensor`, as it is written; of methods without `self`."""
    arguments = node.args
    if bound:
        arguments = ast.arguments(**{name: getattr(arguments, name) for name in arguments._fields})
        arguments.args = arguments.args[1:]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return f"({ast.unparse(arguments)}){returns}"


def docstring(node: Definition) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def _initial(module: str, node: ast.ClassDef) -> ast.FunctionDef | None:
    """Its `__init__`, or that of a class of ours it is derived from."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return one
    bases = (find(module, ast.unparse(base)) for base in node.bases)
    inherited = (_initial(*base) for base in bases if base is not None and isinstance(base[1], ast.ClassDef))
    return next((one for one in inherited if one is not None), None)


def _shown(node: ast.FunctionDef) -> bool:
    """What has something to say of itself, and is meant for others."""
    return not node.name.startswith("_") and bool(ast.get_docstring(node))


def _member(node: ast.FunctionDef) -> str:
    marks = {ast.unparse(mark).split(".")[-1] for mark in node.decorator_list}
    if marks & {"property", "cached_property"}:
        options = [f":type: {ast.unparse(node.returns)}"] if node.returns else []
        return _directive("property", node.name, [docstring(node)], 3, options)
    options = [f":{mark}:" for mark in ("classmethod", "staticmethod") if mark in marks]
    bound = "staticmethod" not in marks
    return _directive("method", f"{node.name}{signature(node, bound)}", [docstring(node)], 3, options)


def _fields(module: str, node: ast.ClassDef) -> list[tuple[str, str]]:
    """Of a dataclass: how a field is given, and a line on it: its help, the comment beside or the string below."""
    _, lines = source_of(module)
    found = []
    for place, one in enumerate(node.body):
        if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
            continue
        below = node.body[place + 1] if place + 1 < len(node.body) else None
        kind = ast.unparse(one.annotation).strip("'")
        if kind.startswith("ClassVar") or one.target.id.startswith("_"):
            continue
        default, said = ast.unparse(one.value) if one.value else None, ""
        if isinstance(one.value, ast.Call) and ast.unparse(one.value.func) == "setting":
            default, said = ast.unparse(one.value.args[0]), _text(one.value.args[1])
        elif isinstance(one.value, ast.Call):
            default = "..."
        if not said and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            said = inspect.cleandoc(str(below.value.value)).replace("\n", " ")
        if not said and (comment := re.search(r"#\s*(.+)$", lines[(one.end_lineno or one.lineno) - 1])):
            said = comment[1]
        call = one.target.id if default is None else f"{one.target.id}={default}"
        found.append((call, f"- `{call}`" + (f": {said}" if said else f" (`{kind}`)")))
    return found


def _text(node: ast.expr) -> str:
    try:
        return str(ast.literal_eval(node))
    except ValueError:  # put together when it runs
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "..." for part in getattr(node, "values", ())
        )


def _directive(kind: str, given: str, content: list[str], ticks: int, options: Sequence[str] = ()) -> str:
    fence = "`" * ticks
    return "\n".join([f"{fence}{{py:{kind}}} {given}", *options, "", *[f"{part}\n" for part in content if part], fence])
