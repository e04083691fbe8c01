"""The cells that are trained twice: by the released code and by modtf. No library is needed here."""

from dataclasses import dataclass, field

VARIANTS = ("monolithic", "modular", "modular_op", "gt_modular")
WIDTH = 32  # e; the inner width is 4e
BATCH_SIZE = 256
LEARNING_RATE = 1e-4
EVALUATIONS = 30  # evenly spaced, besides the one at step 0
TAIL = 3  # of which those in the last tenth of the steps are averaged
EVALUATION_BATCHES = 20  # of 256 examples, under each condition
ACTIVATION_EXAMPLES = 25_600
WEIGHTS = "weights/"  # before the names of a released model's weights


@dataclass(frozen=True)
class Matched:
    """One cell: where the released code keeps it, and its size."""

    arch: str
    setting: str
    num_rules: int
    steps: int
    seq_len: int = 1
    width: int = WIDTH
    options: dict[str, str] = field(default_factory=dict)  # of the task

    @property
    def name(self) -> str:
        return "_".join([self.arch, *self.options.values(), self.setting, f"r{self.num_rules}"])

    @property
    def folder(self) -> str:
        """In a checkout of the released code."""
        return f"{self.arch.upper()}/{self.setting.capitalize()}"


CELLS = {
    cell.name: cell
    for cell in (
        Matched("mlp", "regression", 8, 30_000),
        Matched("mlp", "classification", 8, 30_000),
        Matched("rnn", "classification", 2, 5_000, seq_len=10),
        Matched("mha", "regression", 2, 10_000, seq_len=10),  # search v1
        Matched("mha", "classification", 2, 10_000, seq_len=10),
        Matched("mha", "regression", 2, 10_000, seq_len=10, options={"search": "v2"}),
        Matched("rnn", "regression", 2, 5_000, seq_len=10, options={"target": "state"}),
    )
}
