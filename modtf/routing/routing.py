"""The saved routing of tokens: gates, logits, experts of every token, or counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing import reading
from modtf.routing.formats.registry import Arrays
from modtf.routing.measuring import ActivationAccumulator, LayerMeasures
from modtf.routing.measuring.activations import Counted, measure_layers
from modtf.routing.measuring.damage import kept_rows
from modtf.routing.measuring.layers import Experts, Gates, Ints, Layer
from modtf.routing.measuring.summarise import Options, Progress
from modtf.routing.names import Names

#: the routing of a small trained language model, written by docs/scripts/write_example.py
EXAMPLE = Path(__file__).with_name("example.npz")


@dataclass(frozen=True)
class Routing:
    """The routing of tokens, with their labels, documents and names.

    Attributes:
        activations: the gates or logits, or the experts of tokens, or counts of experts.
        labels: the label of every token `[tokens]`, or for counts of every document `[documents]`; None if
            the file has neither labels nor tokens.
        documents: the document of every token `[tokens]`, or None.
        names: the names of labels and layers.
        factors: the arrays `[tokens]` that the file has for "token" and "position", and the chosen "label".
        words: the texts of tokens, indexed by token id, or None.
        predicted: the id of the token that the model predicted at every token `[tokens]`, or None.
        spans: the span of every token `[tokens]`, such as a chat turn, which keeps one label, or None.
        document_names: the names of documents, indexed by number, or None if the file has numbers.

    Example:
        >>> routing = modtf.read_routing("x.npz")  # doctest: +SKIP
        >>> layers = routing.measure()  # doctest: +SKIP
        >>> write_routing_report(layers, "folder", routing.names)  # doctest: +SKIP
    """

    activations: Gates | Experts | Counted
    labels: Ints | None
    documents: Ints | None
    names: Names
    factors: Mapping[str, Ints]
    words: tuple[str, ...] | None = None
    predicted: Ints | None = None
    spans: Ints | None = None
    document_names: tuple[str, ...] | None = None

    @classmethod
    def read(
        cls,
        path: Any,
        activations: str = "activations",
        labels: str = "labels",
        documents: str | None = None,
        label_names: str | None = None,
        layer_names: str | None = None,
        experts: str | None = None,
        weights: str | None = None,
        num_experts: int | None = None,
        shared: Sequence[int] = (),
        format: str | None = None,
        top_k: int | None = None,
        spans: str | None = None,
        num_layers: int | None = None,
        columns: Mapping[str, str] | None = None,
        from_logits: bool = False,
    ) -> "Routing":
        """Read everything except the activations, of which only the shapes are checked.

        Args:
            path: a file or folder of any format, or an object in memory; see `Arrays`.
            activations: the name of the array of gates or logits, `[tokens, M]` or `[layers, tokens, M]`.
            labels: the name of an array, or an .npy file, with integers from 0, or names, `[tokens]`, or
                `[documents]` if there are documents. If the file has no labels, its "tokens" are the labels;
                only the most frequent tokens are distinguished. Without tokens there are no labels.
            documents: integers from 0 or names, `[tokens]`; None: the array "documents", if it exists.
            label_names: names in the order of the labels' numbers; None: the array "label_names", if it
                exists and belongs to the chosen labels.
            layer_names: one name for each layer; None: the array "layer_names", if it exists.
            experts: in place of activations, the experts that tokens were sent to, `[tokens, k]` or
                `[layers, tokens, k]`; None: the array "experts", if `activations` has its default and the
                file has no such array.
            weights: the weights of the experts; None: the array "weights", if it exists.
            num_experts: E; None: the value of the array "num_experts".
            shared: experts that every token goes to, which are left out. The others keep their numbers.
            format: the name of the format; None: the first that recognises the content.
            top_k: the number of experts per token, for gates, logits and formats that do not store it.
            num_layers: the number of routed layers, for formats that do not store it.
            columns: for tables, a mapping usual name -> column, such as `{"token": "step"}`.
            spans: the span of each token, such as a chat turn; None: the array "spans", if there are labels,
                documents and such an array.
            from_logits: whether activations are logits, before the softmax.

        Raises:
            ValueError: if an array is missing or does not fit the others.
        """
        optional = {"documents": documents, "label_names": label_names, "layer_names": layer_names}
        optional |= {"experts": experts, "weights": weights}
        for name, value in {"activations": activations, "labels": labels, **optional}.items():
            if not isinstance(value, str) and (value is not None or name not in optional):
                raise ValueError(f"{name}={value!r} is not valid; expected the name of an array.")
        arrays = Arrays(path, format, top_k=top_k, num_layers=num_layers, columns=columns)
        routed = reading.routed(
            arrays, activations, experts, weights, num_experts, shared, from_logits, top_k
        )
        layers, num_tokens, _ = routed.shape
        if num_layers not in (None, layers):
            raise ValueError(
                f"{arrays.source} holds {layers} layers, but num_layers={num_layers}. Leave it out."
            )
        if not num_tokens:
            raise ValueError(f"{arrays.source} holds no tokens; expected at least one.")
        reading.check_rows(arrays, num_tokens)
        of_tokens = reading.documents_of(arrays, documents, routed)
        tokens, predicted = (
            reading.token_ids(arrays, name, num_tokens) for name in (reading.TOKEN, reading.PREDICTED)
        )
        classes, factors = reading.labels_and_factors(
            arrays, labels, label_names, num_tokens, of_tokens, tokens
        )
        have_both = classes.numbers is not None and of_tokens.numbers is not None
        found = cls(
            routed,
            classes.numbers,
            of_tokens.numbers,
            Names(classes.names, reading.layer_names(arrays, layer_names, layers)),
            {name: values for name, values in factors.items() if values is not None},
            tokens.names or reading.as_names(arrays.get("token_names")),
            predicted.numbers,
            reading.spans_of(arrays, spans, num_tokens, have_both),
            of_tokens.names,
        )
        if isinstance(routed, Counted):
            return found
        rows = routed.experts if isinstance(routed, Experts) else routed.values
        keep = kept_rows(list(rows), found.documents, tokens.numbers)
        return found if keep.all() else found.only(keep)

    def only(self, keep: NDArray[np.bool_]) -> "Routing":
        """Return the routing of the tokens where `keep` `[tokens]` is true; `ValueError` if none is."""
        if isinstance(self.activations, Counted) or not keep.any():
            raise ValueError("No token is left. Give routing with tokens, some of which are kept.")
        per_token = ("labels", "documents", "predicted", "spans")
        arrays = {name: getattr(self, name) for name in per_token}
        return replace(
            self,
            activations=self.activations.only(keep),
            factors={name: values[keep] for name, values in self.factors.items()},
            **{name: values[keep] for name, values in arrays.items() if values is not None},
        )

    @property
    def layers(self) -> list[Layer]:
        """The layers of tokens; `ValueError` for counts."""
        if isinstance(self.activations, Counted):
            raise ValueError("This routing holds counts without tokens. Measure it by routing.measure().")
        return self.activations.layers

    def measure(self, progress: Progress = iter, **options: Any) -> list[LayerMeasures]:
        """Measure all layers, one after the other.

        Args:
            progress: wraps the layers while they are measured, for example `tqdm`.
            **options: as for `ActivationAccumulator.result`.

        Example:
            >>> import numpy as np
            >>> experts = np.arange(8).reshape(4, 2) % 5
            >>> (layer,) = read_routing({"experts": experts, "num_experts": 5}).measure()
            >>> round(layer.hard.values["effective_experts"].value, 2)
            4.76
        """
        names = self.names.labels
        if isinstance(self.activations, Counted):
            sums = ActivationAccumulator(top_k=self.activations.top_k)
            sums.update_counts(self.activations, self.labels)
            return sums.result(progress=progress, label_names=names, **options)
        return measure_layers(
            self.layers, self.labels, self.documents, self.spans, Options(**options), progress=progress,
            label_names=names,
        )  # fmt: skip

    @property
    def has_tokens(self) -> bool:
        """Whether single tokens are known, rather than only counts of each document."""
        return not isinstance(self.activations, Counted)

    @property
    def expert_numbers(self) -> Ints:
        """The numbers of the experts, or modules, that are measured: all except the shared ones."""
        if isinstance(self.activations, Counted):
            return self.activations.expert_numbers
        return self.layers[0].module_numbers

    @property
    def num_tokens(self) -> int:
        """The number of tokens; for counts, computed from the number of choices."""
        if isinstance(self.activations, Counted):
            choices = self.activations.counts.sum(axis=2).max(axis=1).sum()
            return round(int(choices) / (self.activations.top_k or 1))
        return self.activations.shape[1]


def read_routing(path_or_object: Any, format: str | None = None, **names: Any) -> Routing:
    """Read what a router did: a file or folder of any known format, or an object in memory.

    Args:
        path_or_object: a path; or an object such as a dict of arrays, responses of vLLM or router logits. The
            table of formats is in docs/formats.md.
        format: the name of the format; None: the first that recognises the content.
        **names: arguments of `Routing.read`: the names of arrays, `num_experts`, `top_k`, `shared`.

    Returns:
        The routing; `routing.measure()` measures it.

    Raises:
        ValueError: if no format recognises the content, it is damaged, or its arrays do not fit each other.

    Example:
        >>> import numpy as np
        >>> routing = read_routing({"experts": np.arange(8).reshape(4, 2) % 5, "num_experts": 5})
        >>> routing.num_tokens, routing.activations.shape
        (4, (1, 4, 5))
    """
    return Routing.read(path_or_object, format=format, **names)
