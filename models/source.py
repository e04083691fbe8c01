"""The identity of the code of plug-ins: a hash of a file with its neighbours, or of a notebook's function."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from modtf.tasks.task import science_hash

INSTALLED = {"site-packages", "dist-packages"}  # folders whose modules are no neighbours


def hash_of_source(thing: Any) -> str | None:
    """Return a hash of the file of a function, class or other object, or of a module's name (not imported).

    Files beside it that it imports count, and those that they import; in a package, all of the package. An
    object of a notebook has the hash of its own code. Comments and layout do not count. None if the source is
    not known.
    """
    module = thing if isinstance(thing, str) else inspect.getmodule(thing)
    path = _file_of(module) if isinstance(module, str) else getattr(module, "__file__", None)
    if path is None:
        return None if isinstance(thing, str) else hash_of_code(thing)
    path = Path(path).resolve()
    texts = dict(_with_neighbours(path))
    own = texts.pop(path, None)
    return own and science_hash([own, *sorted(texts.values())] if texts else own, 8)


def hash_of_code(thing: Any) -> str | None:
    """Return a hash of a function, or of a class, as `hash_of_source`, without the rest of its file."""
    code = _code_of(thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing))
    return science_hash(code, 8) if code else None


def _code_of(thing: Any) -> str | list[str]:
    try:
        return ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(thing))))
    except (OSError, SyntaxError, TypeError):  # a notebook knows the functions of a class, and not the class
        methods = filter(inspect.isfunction, vars(thing).values()) if inspect.isclass(thing) else ()
        return [code for method in methods if isinstance(code := _code_of(method), str)]


def _with_neighbours(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield a file and those that it imports, from its folder or package, with their code."""
    root = path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    within = root if root == path.parent else root / path.relative_to(root).parts[0]
    seen, waiting = {path}, [path]
    while waiting:
        file = waiting.pop()
        try:
            tree = ast.parse(file.read_text("utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        yield file, ast.unparse(tree)
        if INSTALLED.isdisjoint(within.parts[-1:]):
            found = set(filter(None, (_file_of(name, within) for name in _imported(tree, file, root)))) - seen
            seen |= found
            waiting += found


def _imported(tree: ast.Module, file: Path, root: Path) -> Iterator[str]:
    """Yield the absolute names of what a file may import."""
    package = file.parent.relative_to(root).parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base = (*base, *filter(None, [node.module]))
            yield from filter(None, map(".".join, (base, *((*base, alias.name) for alias in node.names))))


def _file_of(name: str, within: Path | None = None) -> Path | None:
    """Return the file of a module, which is not imported; None for a module of modtf, or without a file.

    With `within`, also None unless its top module or package lies directly in that folder, or is the folder.
    """
    first, *rest = name.split(".")
    try:
        spec = find_spec(first)
    except (ImportError, ValueError):
        spec = None
    if spec is None or first == "modtf":
        return None
    folders = [Path(folder).resolve() for folder in spec.submodule_search_locations or ()]
    top = [Path(spec.origin).resolve()] if spec.origin and spec.origin.endswith(".py") else []
    if within is not None and within not in [*folders, *(one.parent for one in folders or top)]:
        return None
    inside = [folder.joinpath(*rest) for folder in folders if rest]
    ways = [*(one.with_suffix(".py") for one in inside), *(one / "__init__.py" for one in inside)]
    return next(filter(Path.is_file, ways if rest else top), None)
