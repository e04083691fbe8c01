"""`--set NAMESPACE.NAME=VALUE`: options of families, routers and architectures, and all of a protocol."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from absl import flags

from modtf.checks import check_integer, check_number
from modtf.families import FAMILIES, Family, Option
from modtf.models.architectures import ARCHITECTURES
from modtf.models.options import options_of
from modtf.models.own import options_of_model
from modtf.models.routers import ROUTERS
from modtf.protocol import Protocol
from modtf.space import parse_value

NAMESPACES = ("task", "router", "model", "training", "evaluation")
EXAMPLE = "--set router.temperature=2"

Settings = Mapping[str, Mapping[str, Any]]  # namespace -> name -> value


class _OptionFlag(flags.Flag[str]):
    """The flag of an option of a family."""


def define_settings(values: flags.FlagValues) -> None:
    """Adds --set, and a flag for every option of every family; call it after the command's own flags."""
    flags.DEFINE_multi_string(
        "set",
        [],
        f"NAMESPACE.NAME=VALUE, the namespace one of {', '.join(NAMESPACES)}: {EXAMPLE}. "
        "Repeatable. A router's option goes to the variants that know it.",
        flag_values=values,
    )
    for name, users in _family_options().items():
        if name not in values:  # else --set task.NAME alone
            words = "; ".join(f"{family.name}: {option.description}" for family, option in users)
            flags.DEFINE_flag(_OptionFlag(flags.ArgumentParser(), None, name, None, f"{words}."), values)


def settings_given(values: flags.FlagValues) -> Settings:
    """What --set and the families' own flags say.

    Raises:
        ValueError: on a text that is not NAMESPACE.NAME=VALUE.
    """
    found: dict[str, dict[str, Any]] = {namespace: {} for namespace in NAMESPACES}
    for name, users in _family_options().items():
        flag = values[name]
        if isinstance(flag, _OptionFlag) and flag.value is not None:
            found["task"][name] = _option_value(flag.value, [option for _, option in users])
    for text in values["set"].value or []:
        path, equals, value = text.partition("=")
        namespace, dot, name = path.partition(".")
        if not (equals and dot and name) or namespace not in NAMESPACES:
            raise ValueError(
                f"--set {text}: expected NAMESPACE.NAME=VALUE with a namespace of {', '.join(NAMESPACES)}, "
                f"such as {EXAMPLE}."
            )
        if namespace == "task":
            options = _family_options()
            check_names("task", [name], list(options), "the families")
            found["task"][name] = _option_value(value, [option for _, option in options[name]])
        else:
            found[namespace][name] = parse_value(value)
    return found


def check_names(namespace: str, given: Iterable[str], known: Sequence[str], whose: str) -> None:
    """Raises `ValueError` where a setting of the namespace is none of those known."""
    for name in given:
        if name not in known:
            raise ValueError(
                f"--set {namespace}.{name} is not known. "
                f"The options of {whose}: {', '.join(known) or 'none'}."
            )


def change_protocol(protocol: Protocol, given: Settings, family: Family) -> Protocol:
    """The protocol with what --set says of training and evaluation.

    Raises:
        ValueError: on an unknown name or condition, or a value that is no such number.
    """
    found: dict[str, Any] = {}
    for namespace in ("training", "evaluation"):
        part = getattr(protocol, namespace)
        kinds = {field.name: _kind(field.type) for field in fields(part)}
        check_names(namespace, given[namespace], list(kinds), namespace)
        values = {
            name: _field_value(f"--set {namespace}.{name}", kinds[name], value, family)
            for name, value in given[namespace].items()
        }
        found[namespace] = replace(part, **values)
    return Protocol(**found)


def router_settings(given: Settings, variants: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The router options of each variant: those that it knows, of what --set gives.

    Raises:
        ValueError: on an option that none of the variants knows.
    """
    if not given["router"]:
        return {variant: {} for variant in variants}
    known = {variant: list(options_of(ROUTERS[variant], "__init__", skip=2)) for variant in variants}
    somewhere = list(dict.fromkeys(name for names in known.values() for name in names))
    check_names("router", given["router"], somewhere, " and ".join(variants))
    return {
        variant: {name: value for name, value in given["router"].items() if name in known[variant]}
        for variant in variants
    }


def model_settings(
    given: Settings, architecture: str | None, models: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The options of the architecture and of each registered model, of what --set gives.

    Args:
        architecture: its name; None if there is nothing but registered models.
        models: names of registered models.

    Raises:
        ValueError: on an option that none of them knows.
    """
    if not given["model"]:
        return {}, {name: {} for name in models}
    of_models = {name: list(options_of_model(name)) for name in models}
    known = list(options_of(ARCHITECTURES[architecture], "make_layers")) if architecture else []
    whose = [f"the architecture {architecture!r}"] * (architecture is not None) + [repr(m) for m in models]
    everywhere = list(dict.fromkeys([*known, *(name for names in of_models.values() for name in names)]))
    check_names("model", given["model"], everywhere, " and ".join(whose))

    def chosen(names: Sequence[str]) -> dict[str, Any]:
        return {name: value for name, value in given["model"].items() if name in names}

    return chosen(known), {name: chosen(names) for name, names in of_models.items()}


def says_learning_rate(given: flags.FlagValues) -> bool:
    """Whether --learning_rate or --set says it."""
    return given.learning_rate is not None or "learning_rate" in settings_given(given)["training"]


def _kind(annotation: Any) -> str:
    """What a field holds: "float", "int", "float | None", ..."""
    return annotation.__name__ if annotation in (int, float, str) else str(annotation)


def _field_value(name: str, kind: str, value: Any, family: Family) -> Any:
    """The value of a field of a protocol, checked by its type."""
    if value is None and "None" in kind:
        return None
    if kind.startswith("tuple"):
        names = value.split(",") if isinstance(value, str) else value
        return tuple(family.condition(condition).name for condition in names)
    if kind == "str":
        return value  # the protocol checks it
    if kind.startswith("float"):
        return check_number(name, value, 0.0, float("inf"))
    return check_integer(name, value, 1)


def _family_options() -> dict[str, list[tuple[Family, Option]]]:
    """Name -> the families that have an option of that name."""
    found: dict[str, list[tuple[Family, Option]]] = {}
    for family in FAMILIES.values():
        for option in family.options:
            found.setdefault(option.name, []).append((family, option))
    return found


def _option_value(text: str, options: Sequence[Option]) -> Any:
    """The choice that is written so, else what `parse_value` reads; the task checks it."""
    choices = {str(choice): choice for option in options for choice in option.choices or ()}
    return choices.get(text, parse_value(text))
