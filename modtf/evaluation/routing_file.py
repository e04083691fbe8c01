"""The routing of a trained model as a file that `modtf measure` reads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from modtf.base.checks import check_integer, check_path
from modtf.base.files import atomic_path
from modtf.evaluation.batches import first_batches
from modtf.evaluation.outputs import find_outputs, measured_population
from modtf.tasks.observed import Place
from modtf.tasks.population import Population
from modtf.tasks.task import Task

BATCH = 64  # examples


def write_routing(
    model: keras.Model,
    task: Task | Sequence[Task] | Population,
    path: str | Path,
    *,
    member: int = 0,
    examples: int = 200,
    condition: str = "iid",
    split: str = "test",
    seed: int = 0,
) -> Path:
    """Run a model on new examples and write the experts of every token, with its rule as the label.

    A token's rule is its label; for languages it is the language. Examples are documents, and words are
    written as texts.

    Args:
        model: a model of `modtf.build`, or one like it.
        task: its task, or the list of tasks of a population.
        path: the file to write, `*.npz`.
        member: the number of the member whose routing is written.
        examples: the number of examples.
        condition: see `modtf.stream`.
        split, seed: of the examples.

    Returns:
        The path. The arrays are experts and weights [layers, tokens, k], where k is the largest number of
        experts of a token, or activations [layers, tokens, M] if a token uses all experts; labels [tokens]
        and label_names; and, where they exist, documents and tokens [tokens], token_names and layer_names.

    Raises:
        ValueError: if the model has no routed layer, layers of different sizes, or layers that see a part of
            the tokens only.

    Example:
        >>> model = modtf.load_model("runs/languages/.../last.keras")  # doctest: +SKIP
        >>> modtf.write_routing(model, [modtf.Task("languages")], "routing.npz")  # doctest: +SKIP
    """
    check_path("path", path)
    check_integer("examples", examples, 1)
    population = measured_population(model, task)
    if check_integer("member", member, 0) >= len(population):
        raise ValueError(f"member={member} does not exist; the model has {len(population)}, numbered from 0.")
    found = find_outputs(model, population)
    places = {place.output: place for place in population.task.places.values() if place.output in found}
    _check(places, {name: found[name] for name in places})
    own = population.task.condition(condition).split  # training data have the seeds of the training
    seeded = population if own else replace(population, seeds=(seed,) * len(population))
    batches = []
    for features, _ in first_batches(seeded, BATCH, split, -(-examples // BATCH), condition=condition):
        outputs = model(features)
        part = {name: np.asarray(outputs[name], np.float32) for name in places}
        part |= {name: np.asarray(values) for name, values in features.items()}
        if population.has_axis:
            part = {name: values[:, member] for name, values in part.items()}
        batches.append(part)
    whole = {name: np.concatenate([batch[name] for batch in batches])[:examples] for name in batches[0]}
    p = np.stack([whole[name].reshape(-1, whole[name].shape[-1]) for name in places])
    if not np.isfinite(p).all():
        raise ValueError(
            "The model diverged: its routing is not finite. Choose another member or checkpoint."
        )
    if whole["rule"].max() >= population.task.num_rules:
        raise ValueError(
            f"Under condition={condition!r} tokens have several rules. Choose one with a single rule."
        )
    arrays = {**_experts(p), **_tokens(population.tasks[member], whole)}
    arrays["layer_names"] = np.array([place.name or "experts" for place in places.values()])
    with atomic_path(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return Path(path)


def _check(places: Mapping[str, Place], modules: Mapping[str, int]) -> None:
    if not places or max(modules.values()) < 2:
        raise ValueError("The model routes nothing; expected a layer with at least two modules.")
    if len(set(modules.values())) > 1 or any(
        p.tokens is not None or p.rules is not None for p in places.values()
    ):
        shown = ", ".join(f"{name} ({number} modules)" for name, number in modules.items())
        raise ValueError(
            f"The model has the routed layers {shown}; expected layers that all see every token, with "
            "equally many modules. Measure such a model with modtf.evaluate."
        )


def _experts(p: np.ndarray) -> dict[str, Any]:
    """Return the chosen experts with their weights, or all activations, from p [layers, tokens, M]."""
    k, modules = int((p > 0).sum(axis=2).max()), p.shape[2]
    if k == modules:
        return {"activations": p.astype(np.float16)}
    experts = np.argsort(-p, axis=2, kind="stable")[..., :k]
    weights = np.take_along_axis(p, experts, axis=2)
    chosen = np.where(weights > 0, experts, -1).astype(np.int16)
    return {"experts": chosen, "weights": weights.astype(np.float16), "num_experts": np.array(modules)}


def _tokens(task: Task, whole: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return labels, and documents and words where the task has them."""
    rule, family = whole["rule"], task.family
    names = family.rule_names(task) or tuple(f"rule {number}" for number in range(task.num_rules))
    arrays: dict[str, Any] = {"labels": _integers(rule, task.num_rules), "label_names": np.array(names)}
    if rule.ndim == 2:
        arrays["documents"] = np.repeat(np.arange(len(rule), dtype=np.int32), rule.shape[1])
    if (count := family.num_ids(task)) is not None:
        arrays["tokens"] = _integers(whole["inputs"], count)
        if words := family.token_names(task):
            arrays["token_names"] = np.array(words)
    return arrays


def _integers(numbers: np.ndarray, count: int) -> np.ndarray:
    """Return integers below `count` in one row, in a type that holds them."""
    return numbers.reshape(-1).astype(np.result_type(np.int16, np.min_scalar_type(count)))
