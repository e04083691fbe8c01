"""`--set NAMESPACE.NAME=VALUE` for options of families, routers, architectures and protocols, and
`--best=FOLDER` for the settings that tuning found."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from modtf.base.checks import did_you_mean
from modtf.base.space import parse_value
from modtf.studies.grid import NAMESPACES, PARTS
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES, Option

if TYPE_CHECKING:
    from modtf.tuning import Best

ALL = ("task", *NAMESPACES)
EXAMPLE = "--set router.temperature=2"
SHOWN = 8  # tuned settings that are listed

Settings = Mapping[str, Mapping[str, list[Any]]]  # namespace -> name -> one value, or several to combine


class _OptionFlag(flags.Flag[str]):
    """The flag of an option of tasks, which `--help` shows under the families that have it."""

    by_family: Mapping[str, Option]


def define_settings(values: flags.FlagValues) -> None:
    """Add --set, and a flag for every option of every family; call it after the command's own flags."""
    words = f"An option, NAMESPACE.NAME=VALUE with a namespace of {', '.join(ALL)}, for example {EXAMPLE}. "
    words += "Repeatable. A router's option applies to the variants that have it."
    flags.DEFINE_multi_string("set", [], words, flag_values=values)
    for name, options in _family_options().items():
        if name not in values:  # otherwise only --set task.NAME sets it
            words = f"An option of the tasks of {', '.join(options)}."
            flag = _OptionFlag(flags.ArgumentParser(), flags.ArgumentSerializer(), name, None, words)
            flag.by_family = options
            flags.DEFINE_flag(flag, values)


def settings_given(values: flags.FlagValues, several: bool = False) -> Settings:
    """Parse --set and the families' own flags; with `several`, commas separate values to combine.

    Raise `ValueError` on a text in another form, on unknown options and fields, and on repeated ones.
    """
    own = (values[name] for name in _family_options() if name in values)
    texts = [f"task.{f.name}={f.value}" for f in own if isinstance(f, _OptionFlag) and f.value is not None]
    settings: dict[str, dict[str, list[Any]]] = {namespace: {} for namespace in ALL}
    for text in [*texts, *(values["set"].value or [])]:
        path, equals, value = text.partition("=")
        namespace, dot, name = path.partition(".")
        if not (equals and dot and name) or namespace not in ALL:
            raise ValueError(
                f"--set {text}: expected NAMESPACE.NAME=VALUE with a namespace of {', '.join(ALL)}, "
                f"such as {EXAMPLE}."
            )
        if name in settings[namespace]:
            raise ValueError(f"--set {text}: {path} is given twice. Leave one out.")
        settings[namespace][name] = _values(namespace, name, value, several)
    return settings


def check_known(namespace: str, names: Iterable[str], known: Iterable[str], owner: str) -> None:
    """Raise `ValueError` if a setting of the namespace is unknown."""
    for name in names:
        if name not in known:
            raise ValueError(
                f"--set {namespace}.{name} is not known. "
                f"The options of {owner}: {', '.join(known) or 'none'}.{did_you_mean(name, known)}"
            )


def says_learning_rate(values: flags.FlagValues) -> bool:
    """Return whether --learning_rate or --set gives the learning rate."""
    return values.learning_rate is not None or "learning_rate" in settings_given(values)["training"]


def define_best(values: flags.FlagValues) -> None:
    """Add --best."""
    words = "The folder that modtf tune wrote. Every variant uses the learning rate and options that were "
    flags.DEFINE_string("best", None, f"{words}found for it.", flag_values=values)


def with_best(cells: Sequence[Cell], values: flags.FlagValues) -> list[Cell]:
    """Return the cells; with --best, apply their tuned settings and print them.

    Raise `FileNotFoundError` or `ValueError` if there is no search, it found nothing, or --learning_rate
    contradicts it.
    """
    if values.best is None:
        return list(cells)
    from modtf.tuning import use_best  # pandas takes time

    tuned, best = use_best(values.best, cells)
    rates = [[cell.protocol.training.learning_rate for cell in some] for some in (cells, tuned)]
    if says_learning_rate(values) and rates[0] != rates[1]:
        raise ValueError("--best and a learning rate cannot both be given. Leave one out.")
    words = (
        f"{cell.variant} of {cell.task.kind}: {one}{_tuned_apart(cell, one.search.base)}"
        for cell, one in zip(cells, best, strict=True)
    )
    lines = list(dict.fromkeys(words))
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    print(*lines[:SHOWN], *more, *_unfair(cells, best), sep="\n")
    return tuned


def _tuned_apart(cell: Cell, base: Cell) -> str:
    """Return what differs between a cell and the search whose settings it gets, with the search's values."""
    tuned, own = [
        (f"R = {one.task.num_rules}", f"width {one.width}", f"{training.steps:,} steps",
         f"{training.schedule or 'constant'} schedule", f"batches of {training.batch_size}",
         f"optimizer {training.optimizer}", f"momentum {training.momentum:g}",
         f"weight decay {training.weight_decay:g}", f"clipnorm {training.clipnorm}",
         f"precision {training.precision}")
        for one, training in ((base, base.protocol.training), (cell, cell.protocol.training))
    ]  # fmt: skip
    apart = [words for words, others in zip(tuned, own, strict=True) if words != others]
    return f"; tuned at {', '.join(apart)}" if apart else ""


def _unfair(cells: Sequence[Cell], best: "Sequence[Best]") -> list[str]:
    """Return a line if tasks that chose the settings are reported, and one if variants of a task type had
    unequal numbers of trials."""
    shared, numbers = set[int](), dict[str, dict[int, dict[str, None]]]()
    for cell, one in zip(cells, best, strict=True):
        own, tuned = ({task for task, _ in some.members} for some in (cell, one.search.base))
        shared |= own & tuned
        numbers.setdefault(cell.task.kind, {}).setdefault(one.trials, {})[cell.variant] = None
    lines = []
    if shared:
        tasks = ", ".join(map(str, sorted(shared)))
        lines.append(
            f"Tuned on tasks that are also reported: {tasks}. To tune on others, give tune a study file with "
            "tasks=(100, 101)."
        )
    unequal = [some for some in numbers.values() if len(some) > 1]
    if unequal:
        words = (f"{number} of {', '.join(names)}" for some in unequal for number, names in some.items())
        lines.append(
            f"Unequal numbers of trials: {'; '.join(dict.fromkeys(words))}. Give tune --oracle=random "
            "--trials=N for the same number."
        )
    return lines


def _values(namespace: str, name: str, text: str, several: bool) -> list[Any]:
    """Return the values that a text lists."""
    texts = text.split(",") if several and text[:1] not in ("(", "[", "{") else [text]
    if namespace == "task":
        options = _family_options()
        check_known(namespace, [name], options, "the families")
        choices = {str(choice): choice for o in options[name].values() for choice in o.choices or ()}
        return [choices.get(one, parse_value(one)) for one in texts]  # the task checks them
    if namespace not in PARTS:
        return [parse_value(one) for one in texts]
    fields = PARTS[namespace]  # of a protocol, which checks the values
    check_known(namespace, [name], fields, namespace)
    kind = str(getattr(fields[name].type, "__name__", fields[name].type))  # "int", "float | None", ...
    if kind.startswith("tuple"):
        return [None if text == "None" else tuple(text.split(","))]
    return [parse_value(one) for one in texts]


def _family_options() -> dict[str, dict[str, Option]]:
    """Return name of an option -> family -> the option as that family defines it."""
    options: dict[str, dict[str, Option]] = {}
    for family in FAMILIES.values():
        for option in family.options:
            options.setdefault(option.name, {})[family.name] = option
    return options
