"""A registry: the one place where a name on the command line becomes code."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from modtf.checks import check_name, did_you_mean

T = TypeVar("T")


class UnknownNameError(KeyError, ValueError):
    """A name that is not registered: what mappings raise, and what checks of arguments do."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError's own is in quotes


class Registry(Mapping[str, T], Generic[T]):
    """Names and the objects they stand for; what the tree holds is imported on first use.

    Listing the names costs nothing, so flags can be checked before TensorFlow is imported. A module of the
    tree and a file of a user's register in the same way, with the decorator `register`; a module of the
    tree is named in `modules` besides, so that it is found without being imported.

    Args:
        kind: what is registered, for errors: "architecture", "measure", ...
        modules: name -> the module that registers it when it is imported.
        check: called with (name, object) before it is registered; raises `ValueError` where something
            is missing from it.
    """

    def __init__(
        self,
        kind: str,
        modules: Mapping[str, str] | None = None,
        check: Callable[[str, Any], None] | None = None,
    ):
        self.kind = kind
        self._modules = dict(modules or {})
        self._check = check
        self._objects: dict[str, T] = {}
        self._origins: dict[str, str] = {}

    def register(self, name: str) -> Callable[[Any], Any]:
        """Register a class or a function under `name` and return it (a decorator); raise `ValueError` if the
        name is invalid or taken, or `check` refuses the object."""
        self.check_name(name)

        def add(thing: Any) -> Any:
            self.add(name, thing, origin(thing))
            return thing

        return add

    def check_name(self, name: str) -> None:
        """Raise `ValueError` unless `name` can be used on a command line and in a file name."""
        check_name(f"a {self.kind}", name)

    def add(self, name: str, thing: Any, origin: str) -> None:
        """Register `thing`, which `origin` (module:name) defines; the same origin may do so again."""
        taken = self._modules.get(name)
        if name in self._objects:
            taken = self._origins[name]
        if taken is not None and origin not in (taken, f"{taken}:{origin.partition(':')[2]}"):
            raise ValueError(
                f"The {self.kind} {name!r}, registered by {origin}, is there already, from {taken}. "
                "Choose another name."
            )
        if self._check is not None:
            self._check(name, thing)
        self._objects[name] = thing
        self._origins[name] = origin

    @property
    def outside(self) -> list[str]:
        """The names that plug-ins registered: those that no module of the tree does."""
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
    """module:name; of what has none, such as a number, its class's: `check` refuses it, or nobody minds."""
    named = thing if hasattr(thing, "__module__") and hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}:{named.__qualname__}"


def resolve(reference: Any) -> Any:
    """Return the object of a lazy reference "package.module:attribute"; anything else stands for itself."""
    if not isinstance(reference, str):
        return reference
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
