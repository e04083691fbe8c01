"""y = alpha_c x1 + beta_c x2 (the paper's MLP task)."""

from typing import Any

import numpy as np

from modtf.datasets.families.base import Parameters, RuleData
from modtf.datasets.families.variations import answer
from modtf.tasks.task import Task


class Affine(RuleData):
    """Two standard normal numbers per example. Every rule is a linear map of them."""

    runs_on_device = True
    splits_share_programs = True

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        rng = np.random.RandomState(task.data_seed)
        return {"alpha": rng.randn(task.num_rules), "beta": rng.randn(task.num_rules)}

    def outputs(self, parameters: Parameters, inputs: Any, rule: Any) -> Any:
        return answer(self, parameters, inputs, rule)
