"""Analyses of routing by name, each a file of this folder or of a user, and how to run them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from modtf.base.checks import check_attributes, check_callable, check_integer, check_names, check_number
from modtf.base.registry import Registry
from modtf.routing.analyses.choices import Choices, read_choices
from modtf.routing.measuring.estimates import FEWEST
from modtf.routing.measuring.summarise import MOST_PERMUTATIONS, Progress
from modtf.routing.routing import Routing

if TYPE_CHECKING:  # `modtf measure --help` needs neither
    import pandas as pd

    from modtf.pages.pictures import Picture

TEXTS = ("title", "about", "definition", "source", "null")
ASSUMED = "needs at least two experts per token; give --top_k=K (top_k=K) if the router chooses several"
STREAM = 50  # of the random numbers of analyses
COLUMNS = ("layer", "measure", "item", "value", "low", "high", "chance", "chance_low", "chance_high")
#: a fact that an analysis can need -> what to say if a file lacks it
NEEDS = {
    "tokens": "needs the choices of single tokens; this file holds counts",
    "documents": "needs at least two documents; give an array `documents`",
    "labels": "needs labels (domains) of at least two kinds; give an array `labels`",
    "token_ids": "needs the ids of tokens; give an array `tokens`",
    "predicted_ids": "needs the ids of predicted tokens; give an array `predicted_tokens`",
    "several_tokens": "needs documents of two or more tokens, because it permutes tokens within documents",
    "several_choices": "needs at least two experts per token; this router chooses one",
    "ranks": "needs the weights of choices, which say what the first choice is; give an array `weights`",
    "against": "needs the routing of the same tokens by another checkpoint; give it as `against`",
}


@dataclass(frozen=True)
class Options:
    """The options of an analysis. Without permutations there is no chance level."""

    permutations: int = FEWEST
    confidence: float = 0.95
    seed: int = 0
    progress: Progress = iter

    def __post_init__(self) -> None:
        check_integer("permutations", self.permutations, 0, MOST_PERMUTATIONS)
        check_number("confidence", self.confidence, 0.5, 0.9999)
        check_integer("seed", self.seed, 0)

    def generator(self) -> np.random.Generator:
        """Return random numbers that differ from those of a router simulated with the same seed."""
        return np.random.default_rng([self.seed, STREAM])


@dataclass(frozen=True)
class Analysed:
    """The result of an analysis.

    Attributes:
        table: a row per layer, measure and item (a label, an expert; empty for the whole layer), with the
            columns of `COLUMNS`. Unknown numbers are NaN. With a column `draws`, the number of routers drawn
            for the chance level, sentences correct for the number of layers exactly.
        sentences: what was found, in plain sentences with numbers, the most important one first.
        pictures: figures, of which the first shows the result.
        notes: what a reader has to know, such as a sample or an assumption.
    """

    table: "pd.DataFrame"
    sentences: tuple[str, ...]
    pictures: "tuple[Picture, ...]" = ()
    notes: tuple[str, ...] = field(default=())


class Analysis:
    """An analysis of routing. Register a subclass by `@modtf.register_analysis(name)`.

    Attributes:
        title: the name that the field uses.
        about: one sentence that says what it shows.
        definition: the published definition, in words.
        source: the reference of the definition.
        null: the router that the chance level belongs to.
        needs: names of facts without which it cannot be computed, from `NEEDS`.
        panels: the measures of each panel of the picture that `result` draws, as far as the table has them.
        finds: measure -> what layers above chance do, for a sentence: "route domains differently".
        most_tokens: the most tokens that are analysed, in whole documents drawn at random; None: all.
        name: the name that it is registered under.
    """

    title: ClassVar[str] = ""
    about: ClassVar[str] = ""
    definition: ClassVar[str] = ""
    source: ClassVar[str] = ""
    null: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    panels: ClassVar[Sequence[Sequence[str]]] = ()
    finds: ClassVar[Mapping[str, str]] = {}
    most_tokens: ClassVar[int | None] = None
    name: ClassVar[str] = ""

    def missing(self, data: Choices) -> str | None:
        """Return one line that says why the analysis cannot be computed from `data`, or None if it can."""
        known = NEEDS | ({"several_choices": ASSUMED} if data.assumes_one else {})
        return next((known[need] for need in self.needs if not data.has(need)), None)

    def analyse(self, data: Choices, options: Options) -> Analysed:
        """Return what the analysis finds: by default the `rows` of a sample of the tokens."""
        data = data.sample(self.most_tokens, options.seed) if self.most_tokens else data
        return self.result(list(self.rows(data, options)), data)

    def rows(self, data: Choices, options: Options) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table, layer by layer, as `rows_of` makes them."""
        raise NotImplementedError

    def notes(self, data: Choices) -> list[str]:
        """Return what a reader has to know, beyond the notes of the data."""
        return []

    def sentences(self, table: "pd.DataFrame", data: Choices) -> list[str]:
        """Return what the table shows, in sentences, the most important one first."""
        from modtf.routing.analyses.sentences import beyond_chance

        measures = set(table["measure"])
        known = {measure: what for measure, what in self.finds.items() if measure in measures}
        return [beyond_chance(table, measure, what, data.names) for measure, what in known.items()]

    def result(
        self, rows: Any, data: Choices, notes: Iterable[str] = (), panels: Sequence[Sequence[str]] = ()
    ) -> Analysed:
        """Return a table of rows, with its sentences and a picture of the measures of whole layers.

        Args:
            rows: from `rows_of`, or a table of these.
            data: the choices that were analysed.
            notes: further notes, which depend on the rows.
            panels: the measures of each panel; by default those of the class that the table has.
        """
        import pandas as pd  # slow to import

        from modtf.routing.drawing import draw_measures

        table = pd.DataFrame(rows)
        layers = table[table["item"] == ""]
        known = [[one for one in panel if one in set(layers["measure"])] for panel in self.panels]
        panels = panels or [panel for panel in known if panel]
        picture = draw_measures(self.name, self.title, layers, panels, data.names)
        return Analysed(
            table, tuple(self.sentences(table, data)), (picture,), (*data.notes, *self.notes(data), *notes)
        )

    def nothing(self, sentence: str, notes: Sequence[str]) -> Analysed:
        """Return an empty table, with a sentence that says why."""
        import pandas as pd  # slow to import

        return Analysed(pd.DataFrame(columns=list(COLUMNS)), (sentence,), (), tuple(notes))


def _check(name: str, thing: Any) -> None:
    if not (isinstance(thing, type) and issubclass(thing, Analysis)):
        raise ValueError(
            f"The analysis {name!r} is {thing!r}; expected a subclass of modtf.routing.Analysis."
        )
    check_attributes(f"The analysis {name!r}", thing, **dict.fromkeys(TEXTS, str))
    if empty := [name for name in TEXTS if not getattr(thing, name)]:
        raise ValueError(f"The analysis {name!r} has no {empty[0]}; expected a sentence.")
    if unknown := [need for need in thing.needs if need not in NEEDS]:
        raise ValueError(f"The analysis {name!r} needs {unknown[0]!r}; expected some of {', '.join(NEEDS)}.")


#: in the order of the report
ANALYSES: Registry[type[Analysis]] = Registry(
    "analysis",
    {
        name: f"modtf.routing.analyses.{name}"
        for name in (
            "load",
            "domain_specialisation",
            "vocabulary_specialisation",
            "standing_committee",
            "coactivation",
            "repetition",
            "consistency",
            "cache",
            "dependence",
            "saturation",
        )
    },
    _check,
)


def register_analysis(name: str) -> Callable[[Any], Any]:
    """Register a subclass of `Analysis` under `name`, for reports, files and `analyse_routing` (a decorator).

    Args:
        name: lower-case letters, digits and underscores; also the name of its files.

    Raises:
        ValueError: if the name is invalid or taken, or the class lacks a text.

    Example:
        >>> @modtf.register_analysis("document_starts")  # doctest: +SKIP
        ... class DocumentStarts(modtf.routing.Analysis):
        ...     title = "Document starts"  # and about, definition, source, null, analyse(data, options)
    """
    register = ANALYSES.register(name)

    def add(thing: Any) -> Any:
        register(thing).name = name
        return thing

    return add


def chosen_analyses(names: Iterable[str] | str | None) -> list[str]:
    """Return the names of analyses: all for None or "all", none for "none"; an error for an unknown name."""
    if names is None or names == "all":
        return list(ANALYSES)
    if names == "none":
        return []
    some = (names,) if isinstance(names, str) else check_names("analyses", names)
    for name in some:
        ANALYSES[name]  # raises an error for an unknown name
    return list(dict.fromkeys(some))


@dataclass(frozen=True)
class Analyses:
    """The results of several analyses.

    Attributes:
        found: name -> result.
        missing: name -> one line that says why an analysis could not be computed.
    """

    found: dict[str, Analysed]
    missing: dict[str, str]


def analyse_routing(
    routing: Any,
    analyses: Iterable[str] | str | None = None,
    *,
    against: Any = None,
    permutations: int = FEWEST,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress = iter,
) -> Analyses:
    """Run the analyses of the field on a routing, each with a chance level and an interval over documents.

    Args:
        routing: a `Routing`, or what `modtf.read_routing` takes: a path or an object. Read logits by
            `modtf.read_routing(path, from_logits=True, top_k=K)` first.
        analyses: names of registered analyses; None: all.
        against: the same tokens as another checkpoint routed them; router saturation needs it.
        permutations: draws of the router that knows nothing, for the chance level; 0 for none. The smallest
            and the largest of 39 enclose 95% of further ones.
        confidence: the confidence level of the intervals.
        seed: the seed of all random numbers.
        progress: wraps the layers while they are analysed, for example `tqdm`.

    Returns:
        The results by name, and for each analysis that cannot be computed one line that says why.

    Raises:
        ValueError: if an argument is invalid, or an analysis is unknown.

    Example:
        >>> import numpy as np
        >>> experts = np.random.default_rng(0).integers(4, size=(400, 1))
        >>> found = analyse_routing({"experts": experts, "num_experts": 4}, "load").found["load"]
        >>> list(found.table["measure"].unique())[:2]
        ['utilisation', 'dead_experts']
    """
    check_callable("progress", progress)
    other = None if against is None else _as_routing(against)
    return run_analyses(
        _as_routing(routing), chosen_analyses(analyses), lambda some, desc: progress(some), against=other,
        permutations=permutations, confidence=confidence, seed=seed,
    )  # fmt: skip


def _as_routing(thing: Any) -> Routing:
    return thing if isinstance(thing, Routing) else Routing.read(thing)


def run_analyses(
    routing: Routing,
    names: Sequence[str],
    progress: Callable[..., Iterable[Any]],
    *,
    against: Routing | None = None,
    permutations: int,
    confidence: float,
    seed: int,
) -> Analyses:
    """Run analyses; `progress` wraps the chunks or layers of each, and takes what they are as `desc`."""
    if not names:
        return Analyses({}, {})
    bar = partial(progress, desc="reading choices")
    data = read_choices(routing, seed=seed, against=against, progress=bar)
    found, missing = {}, {}
    for name in names:
        analysis = ANALYSES[name]()
        if (why := analysis.missing(data)) is not None:
            missing[name] = why
            continue
        options = Options(permutations, confidence, seed, partial(progress, desc=analysis.title))
        found[name] = analysis.analyse(data, options)
    return Analyses(found, missing)
