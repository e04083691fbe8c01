"""Registries, which map names on the command line to code, and the parts of experiments, which they read."""

import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from modtf.base.checks import check_name, did_you_mean

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
TABLE = "parts.toml"


def parts_of_experiments(kind: str) -> dict[str, str]:
    """Return the registered parts of a kind: name -> module that registers it.

    A table has the experiment's place in reports, `order`, and a section for each kind of part. A
    section maps modules of the folder to the names that they register, in the order of reports.

    Example:
        >>> parts_of_experiments("claim")["gt_modular_wins"]
        'modtf.experiments.modarch.claims.performance'
    """
    return {
        name: f"modtf.experiments.{folder}.{module}"
        for folder, table in _tables()
        for module, names in table.get(kind, {}).items()
        for name in names.split()
    }


@cache
def _tables() -> list[tuple[str, dict[str, Any]]]:
    """Return (folder, table) of every experiment, in their order."""
    paths = EXPERIMENTS.glob(f"*/{TABLE}")
    tables = [(path.parent.name, tomllib.loads(path.read_text("utf-8"))) for path in paths]
    return sorted(tables, key=lambda folder: folder[1]["order"])


T = TypeVar("T")


class UnknownNameError(KeyError, ValueError):
    """An error for a name that is not registered, as raised by mappings and by checks of arguments."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it


class Registry(Mapping[str, T], Generic[T]):
    """Names and their objects. The project's own objects are imported on first use.

    Listing names imports nothing, so flags can be checked before TensorFlow is imported. A module of the
    project and a user's file register in the same way, with the decorator `register`. A module of the
    project is also listed in `modules`, or in the table of its experiment: it is found without an import.

    Args:
        kind: the kind of object, for errors: "architecture", "measure", ...
        modules: name -> the module that registers it when imported.
        check: called with (name, object) before registration; raises `ValueError` if the object is
            incomplete.
    """

    def __init__(
        self,
        kind: str,
        modules: Mapping[str, str] | None = None,
        check: Callable[[str, Any], None] | None = None,
    ):
        self.kind = kind
        self._modules = {**(modules or {}), **parts_of_experiments(kind)}
        self._check = check
        self._objects: dict[str, T] = {}
        self._origins: dict[str, str] = {}

    def register(self, name: str) -> Callable[[Any], Any]:
        """Register a class or a function under `name` and return it (a decorator). Raise `ValueError` if the
        name is invalid or taken, or `check` rejects the object."""
        self.check_name(name)

        def add(thing: Any) -> Any:
            self.add(name, thing, origin(thing))
            return thing

        return add

    def check_name(self, name: str) -> None:
        """Raise `ValueError` unless `name` can be used on a command line and in a file name."""
        check_name(f"{'an' if self.kind[0] in 'aeiou' else 'a'} {self.kind}", name)

    def add(self, name: str, thing: Any, origin: str) -> None:
        """Register `thing`, which `origin` (module:name) defines. The same origin may register again."""
        taken = self._modules.get(name)
        if name in self._objects:
            taken = self._origins[name]
        if taken is not None and origin not in (taken, f"{taken}:{origin.partition(':')[2]}"):
            raise ValueError(
                f"The {self.kind} {name!r}, registered by {origin}, exists already, registered by {taken}. "
                "Choose another name."
            )
        if self._check is not None:
            self._check(name, thing)
        self._objects[name] = thing
        self._origins[name] = origin

    @property
    def outside(self) -> list[str]:
        """Return the names that plug-ins registered, which no module of the project does."""
        return [name for name in self._objects if name not in self._modules]

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str) or name not in self:
            hint = did_you_mean(name, self)
            raise UnknownNameError(f"Unknown {self.kind}: {name!r}. Known: {', '.join(self)}.{hint}")
        if name not in self._objects:
            import_module(self._modules[name])
            if name not in self._objects:
                raise KeyError(f"{self._modules[name]} does not register the {self.kind} {name!r}.")
        return self._objects[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._objects  # without importing it

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._modules, *self._objects]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def origin(thing: Any) -> str:
    """Return module:name. For objects without one, such as a number, it is their class's."""
    named = thing if hasattr(thing, "__module__") and hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}:{named.__qualname__}"


def resolve(reference: Any) -> Any:
    """Return the object of a lazy reference "package.module:attribute", and anything else unchanged."""
    if not isinstance(reference, str):
        return reference
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)


def options_of(owner: type, method: str, skip: int = 1) -> dict[str, Any]:
    """Return the options that `owner.method` takes after its first `skip` arguments, with their defaults.

    If the method passes other options on (`**options`), those of its base class are included.
    """
    options: dict[str, Any] = {}
    for written_by in owner.__mro__:
        if method not in vars(written_by):
            continue
        function = vars(written_by)[method]
        options = options_of_function(function, skip) | options
        if not inspect.getfullargspec(function).varkw:
            break
    return options


def options_of_function(function: Callable[..., Any], skip: int) -> dict[str, Any]:
    """Return the options that a function takes after its first `skip` arguments, with their defaults."""
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    return {p.name: p.default for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}


def check_known_options(what: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise `ValueError`, naming all options, if one is unknown to `what` or missing."""
    listed = f"its options: {', '.join(known) or 'none'}"
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"{name}={value!r} is not an option of {what}; {listed}.")
    for name, default in known.items():
        if default is inspect.Parameter.empty and name not in options:
            raise ValueError(f"The option {name!r} of {what} has no default. Give it; {listed}.")
