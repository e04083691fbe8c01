"""What a model must return: `{"target": [B, ...], "activation": [B, ..., M]}`."""

from collections.abc import Sequence
from typing import Any

import keras

from modtf.datasets.streaming import stream
from modtf.models.base import ModularModel
from modtf.task import Task, as_members


def count_modules(model: keras.Model, task: Task | Sequence[Task]) -> int:
    """The number of modules M of a model, which a user's model tells, and is built by, on two examples.

    Raises:
        ValueError: if the model is of another task, or does not return what it must.
    """
    if isinstance(model, ModularModel):
        tasks, _, population = as_members(task, 0 if isinstance(task, Task) else [0] * len(task))
        shapes = [(t[0].shape_key.name, len(t)) for t in (model.tasks, tasks)]
        if shapes[0] != shapes[1] or model.population != population:
            raise ValueError(
                f"The model was built for {_describe(model.tasks, model.population)}, received "
                f"{_describe(tasks, population)}. Give the task, or the list of tasks, that it was built for."
            )
        return model.num_modules
    seed: Any = 0 if isinstance(task, Task) else [0] * len(task)
    features, _ = next(iter(stream(task, 2, "validation", seed)))
    outputs = model(features)
    if not isinstance(outputs, dict) or not {"target", "activation"} <= set(outputs):
        received = sorted(outputs) if isinstance(outputs, dict) else type(outputs).__name__
        raise ValueError(
            "A model must return a dict with the keys 'target' [B, ...] and 'activation' [B, ..., M], "
            f"received {received}. Wrap your model in one whose call returns both."
        )
    return int(outputs["activation"].shape[-1])


def _describe(tasks: Sequence[Task], population: bool) -> str:
    return f"a list of {len(tasks)} tasks like {tasks[0].name}" if population else tasks[0].name
