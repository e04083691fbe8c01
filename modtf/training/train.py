"""The public functions `modtf.train` and `modtf.load_model`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import keras

from modtf.base.checks import check_choice, check_integer, check_names, check_path, check_type
from modtf.base.files import check_file_writable
from modtf.base.words import one_line
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.outputs import find_outputs
from modtf.models.architectures import ARCHITECTURES
from modtf.models.base import ModularModel
from modtf.tasks.population import Population
from modtf.tasks.protocol import MOST, PLACES, TRAINING_FACTOR, Evaluation, Protocol, Training
from modtf.tasks.task import Task
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.fit import check_callbacks, fit_model, scope_of
from modtf.training.model_file import check_model_file
from modtf.training.strategy import check_devices


def train(
    model: keras.Model,
    task: Task | Sequence[Task] | Population,
    steps: int,
    *,
    seed: int | Sequence[int] | None = None,
    batch_size: int = 256,
    learning_rate: float = 1e-4,
    clipnorm: float | str | None = "auto",
    evaluations: int = 20,
    precision: str = "float32",
    data: str = "auto",
    devices: Sequence[str] = (),
    evaluation: Evaluation | EvaluateCallback | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    steps_per_execution: int | None = None,
    jit_compile: bool | str = True,
    verbose: bool = True,
    label: str | None = None,
    optimizer: str = "adam",
    momentum: float = 0.0,
    schedule: str | None = None,
    weight_decay: float = 0.0,
) -> keras.callbacks.History:
    """Train a model, or a population, by default with Adam, on the "train" stream of its task.

    The model is compiled with XLA and runs many steps per call. Before the first step, and after every `steps
    / evaluations` steps, it is measured on the "validation" stream (`EvaluateCallback`). Under a
    `tf.distribute.MirroredStrategy` with several replicas (build the model in its scope), Keras supports
    neither. Both are then switched off, and one line says so.

    A second call continues from the model's weights, but reads the same batches from the first one on, and
    its optimizer and schedule start anew. Give another `seed` for fresh batches.

    Args:
        model: a model of `modtf.build`, or any `keras.Model` that returns `{"target", "activation"}`, or
            `{"target"}` alone.
        task: its task, or the list of tasks of a population.
        steps: training steps, each on one batch.
        seed: of the training data; by default the seeds of the population or the model, or 0.
        batch_size: examples per member and step.
        learning_rate: of Adam (epsilon 1e-8), or another optimizer.
        clipnorm: largest norm of one member's gradient, None for no limit. "auto": as published, 1.0 for rnn
            and None for mlp and mha.
        evaluations: how many, evenly spaced; the largest divisor of `steps` not above it is taken.
        precision: "float32", or "tf32" for TensorFloat-32 products on GPUs that support them. A model built
            with dtype="mixed_bfloat16" is trained with that precision without this argument.
        data: where the data are made: "host"; "device", by the compiled program from the same random bits;
            "auto", the device on an accelerator and the host on a CPU. An `EvaluateCallback` has its own.
        devices: names of devices, such as "GPU:0". Each trains a share of a population's members without
            waiting for the others. The model holds all members whenever `fit` returns to Python. Callbacks,
            checkpoints and evaluations run on the default device and see one population.
        evaluation: how much data each evaluation reads, or an `EvaluateCallback` to read afterwards.
        checkpoint: a file `*.npz`. A killed run that is started again with the same arguments resumes from it
            and ends with the same weights. The file is written every 30 seconds, at the end, and on Ctrl-C or
            `SystemExit`. It stays when training ends: training again then returns at once. It records tasks,
            seeds, model and protocol; the file of another run is rejected, and kept. The arguments in
            `modtf.training.callbacks.checkpoint.MAY_DIFFER` may change.
        callbacks: more Keras callbacks; the checkpoint stores those with `state()` and `load_state(state)`.
        steps_per_execution: steps between two returns to Python (progress bar, callbacks, Ctrl-C); by default
            as many as take a few seconds on one core, 100 at most.
        jit_compile: whether XLA compiles the step: True, False or "auto".
        verbose: whether to show a progress bar.
        label: the name on the progress bar; that of the model by default.
        optimizer, momentum, schedule, weight_decay: see `modtf.Training`.

    Returns:
        Keras's history: `loss`, `val_loss`, the measures and the router's penalty, if it has one. The values
        are means over members, one per evaluation after training began.

    Raises:
        ValueError: if an argument is out of range, the model has other outputs, or the checkpoint belongs to
            another training.

    Example:
        >>> history = modtf.train(model, task, steps=10_000)
    """
    population = _with_seeds(model, task, seed)
    check_choice("data", data, PLACES)
    if isinstance(evaluation, EvaluateCallback):
        evaluation.check_unused(model, checkpoint is not None and Path(checkpoint).exists())
    elif evaluation is not None:
        check_type("evaluation", evaluation, Evaluation)
    if checkpoint is not None:
        check_file_writable(checkpoint, "checkpoint")
    check_devices(devices := check_names("devices", devices))
    if not isinstance(jit_compile, bool) and jit_compile != "auto":
        raise ValueError(f"jit_compile={jit_compile!r} is not valid; expected True, False or 'auto'.")
    check_callbacks(callbacks)
    if steps_per_execution is not None:
        steps_per_execution = check_integer("steps_per_execution", steps_per_execution, 1, MOST)
    check_choice("verbose", verbose, (True, False, 0, 1))
    if not isinstance(label, str | None):
        raise ValueError(f"label={label!r} is not valid; expected a text.")
    if isinstance(clipnorm, str):
        check_choice("clipnorm", clipnorm, ("auto",))
        clipnorm = Protocol.published(population.task).training.clipnorm
    training = Training(
        steps=steps,
        learning_rate=learning_rate,
        batch_size=batch_size,
        clipnorm=clipnorm,
        evaluations=evaluations,
        precision=precision,
        optimizer=optimizer,
        momentum=momentum,
        schedule=schedule,
        weight_decay=weight_decay,
    )
    population.family.check_training(population.task, training)
    with scope_of(model):
        find_outputs(model, population)  # before compilation; this builds a user's model
    if not isinstance(evaluation, EvaluateCallback):
        smaller = Evaluation().smaller(TRAINING_FACTOR, population.family.while_training)
        sizes = smaller if evaluation is None else evaluation
        evaluation = EvaluateCallback(Evaluator(model, population, sizes, "validation", data=data))
    model.trained_on = population  # `modtf.evaluate` reads its seeds
    return fit_model(
        model,
        population,
        training,
        data=data,
        devices=devices,
        checkpoint=checkpoint,
        callbacks=[evaluation, *callbacks],
        steps_per_execution=steps_per_execution,
        jit_compile=jit_compile,
        verbose=verbose,
        label=label,
    )


def load_model(path: str | Path) -> keras.Model:
    """Read a model that `model.save("x.keras")` wrote, regardless of earlier imports.

    `keras.saving.load_model` finds a class only after the import of the module that registers it. This
    function imports modtf's modules, then calls it. In a process that has built or loaded a model of the same
    architecture, both are equivalent.

    Args:
        path: an archive `*.keras`.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if it is damaged, names code to run or other files to read, or holds a model that this
            version does not know.

    Example:
        >>> model = modtf.load_model("runs/mlp/.../best.keras")
    """
    check_path("path", path)
    if not Path(path).exists():
        raise FileNotFoundError(
            f"The file {str(path)!r} does not exist. Give a file that model.save('x.keras') wrote."
        )
    for name in ARCHITECTURES:
        ARCHITECTURES[name]  # the lookup imports the module
    try:
        check_model_file(path)
        return keras.saving.load_model(path, safe_mode=True)
    except Exception as error:  # Keras, HDF5 and zip raise many errors on a damaged file
        reason = one_line(error, 500) or type(error).__name__
        raise ValueError(
            f"{path} cannot be read as a model ({reason}). Expected a file that model.save('x.keras') wrote."
        ) from error


def _with_seeds(
    model: keras.Model, task: Task | Sequence[Task] | Population, seed: int | Sequence[int] | None
) -> Population:
    """Return the population to train on; by default it has the seeds that the model was built with."""
    population = Population.of(task, seed)
    chosen = seed is not None or isinstance(task, Population)
    if chosen or not isinstance(model, ModularModel) or len(model.population) != len(population):
        return population
    return replace(population, seeds=model.population.seeds)
