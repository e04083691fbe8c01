"""Goes on in the middle of an epoch."""

import keras


def skip_steps(model: keras.Model, steps: int) -> None:
    """Makes the first calls of the training function, which stand for so many steps, do nothing.

    So `fit` goes on in the middle of an epoch; its data must begin behind those steps.

    Args:
        model: compiled, on the TensorFlow backend; `steps_per_execution` divides `steps`.
    """
    model.make_train_function()
    function, left = model.train_function, steps

    def skipping(iterator):
        nonlocal left
        if left <= 0:
            return function(iterator)
        left -= model.steps_per_execution
        return model.get_metrics_result()

    model.train_function = skipping
