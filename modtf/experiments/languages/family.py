"""Text of languages whose laws are known, for a language model. Every language is a rule."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from modtf.tasks.condition import IID, Condition
from modtf.tasks.families import Family, Option, register_family
from modtf.tasks.family import Variant
from modtf.tasks.observed import Place, Probe
from modtf.tasks.protocol import Evaluation, Preset, Protocol, Training

if TYPE_CHECKING:
    from modtf.tasks.task import Task

LENGTH = 64  # words of a document
COUNTED_FROM = 16  # the first position at which predictions count
SWITCH_PLACES = (16, 48)  # the first and the last word that can be the first of another language
FUNCTION_WORDS, CLASSES = 16, 16
LAYERS = ("layer1", "layer2")
ROOM = "modtf.experiments.languages"
BALANCED = {"router.balance": "auxiliary", "router.strength": 0.01}
#: measures of a layer under a condition: bits about a label, the same for labels of other tokens, uneven load
LANGUAGE, WORD, LANGUAGE_CHANCE, WORD_CHANCE = (
    "language_bits", "word_bits", "language_bits_chance", "word_bits_chance",
)  # fmt: skip
LOAD, ACTIVE = "load_cv", "active_experts"


@register_family("languages")
class Languages(Family):
    """A document is text in one language. The model predicts the next word; the language is hidden from it.

    The setting is "distribution": in training the target is the next word, one-hot. In evaluation it is the
    true law of the next word, so the loss is the exact excess over the best possible loss, in nats a token.
    The first 16 predictions, in which the language is inferred, do not count.
    """

    title = "Languages"
    data = f"{ROOM}.data:Documents"
    architecture = "languages"
    settings = ("distribution",)
    options = (
        Option("law", "rows", "what languages share: rows of some words, or classes of words",
               ("rows", "classes"), always_named=True),
        Option("switches", 0, "changes of language in a document, 0 or 1", low=0, high=1, integer=True),
        Option("languages", 8, "number of languages", low=2, high=64, integer=True),
        Option("vocabulary", 64, "words of all languages", low=2, high=256, integer=True),
    )  # fmt: skip
    input_dtype = "int32"
    training_length = LENGTH - 1  # predictions; the last word has no next one
    min_tokens = 17  # one prediction counts
    conditions = (
        Condition(IID, "as in training", True),
        Condition("long", "documents twice as long", seq_len=2 * LENGTH - 1),
        Condition("switching", "the language changes once", options={"switches": True}),
        Condition("changed", "half of the words have other frequencies", options={"changed": True}),
    )
    headline = "changed"
    table = (LANGUAGE, LANGUAGE_CHANCE, WORD, WORD_CHANCE, LOAD, ACTIVE)
    table_note = (
        "loss: the excess over the best possible prediction, in nats a token; smaller is better.\n"
        "language and word bits: information in the choice of the expert about language and word, compared\n"
        "with chance (labels of other tokens). load cv: 0 is even. active experts: for each token."
    )
    checkpoint = "last"
    variants = (
        Variant("monolithic", "no experts, active size"),
        Variant("monolithic_total", "no experts, total size", "monolithic", {"total": True},
                by_default=False),
        Variant("monolithic_told", "no experts, active size, told the language", "monolithic", {"told": True},
                by_default=False),
        Variant("hash", "hash of the word"),
        Variant("switch", "top-1 with load balancing"),
        Variant("top_2", "top-2 with load balancing", "balanced", {"router.k": 2, **BALANCED},
                by_default=False),
        Variant("top_2_shared", "top-2 and a shared expert", "balanced",
                {"router.k": 2, "router.shared": True, "router.modules": 9, **BALANCED}, by_default=False),
        Variant("modular", "all experts, weighted"),
        Variant("modular_op", "router that sees the language", by_default=False),
        Variant("gt_modular", "an expert per language"),
    )  # fmt: skip
    reference: ClassVar[str] = "modular"

    def token_shape(self, task: "Task") -> tuple[int, ...]:
        return ()

    def target_width(self, task: "Task") -> int:
        return int(task.vocabulary)

    def num_ids(self, task: "Task") -> int:
        return int(task.vocabulary)

    def token_names(self, task: "Task") -> tuple[str, ...]:
        """Return invented words, the same in all corpora."""
        ends = [consonant + vowel for vowel in "aeiou" for consonant in "bdfgklmnprstvz"]
        return tuple(
            ends[27 * number % 70] + ends[(11 * number + number // 70) % 70]
            for number in range(task.vocabulary)
        )

    def rule_names(self, task: "Task") -> tuple[str, ...]:
        return tuple(f"language {number + 1}" for number in range(task.num_rules))

    def fixed_rules(self, options: Mapping[str, Any]) -> int:
        return int(options["languages"])

    def places(self, task: "Task") -> dict[str, Place]:
        return {name: Place(name, task.num_rules) for name in LAYERS}

    def probes(self, task: "Task") -> tuple[Probe, ...]:
        """Return the counts of experts by language and by word, in each layer."""
        return tuple(
            Probe(f"routing_{name}", f"activation_{name}", f"{ROOM}.routing:RoutingCounts",
                  f"{ROOM}.routing:rows_of_{name}", while_training=True)
            for name in LAYERS
        )  # fmt: skip

    def check(self, task: "Task") -> None:
        least = FUNCTION_WORDS + 1 if task.law == "rows" else CLASSES
        if task.vocabulary < least:
            raise ValueError(
                f"vocabulary={task.vocabulary} leaves the languages no words of their own; expected at "
                f"least {least} for law={task.law}."
            )

    def published(self, task: "Task") -> Preset:
        return self._preset(task, tasks=6, steps=4_000, batches=50)

    def quick(self, task: "Task") -> Preset:
        return self._preset(task, tasks=1, steps=1_200, batches=12)

    def smoke(self, task: "Task") -> Preset:
        """Return the smallest preset. Every language occurs, because a document has only one."""
        preset = super().smoke(task)
        tokens = preset.protocol.evaluation.tokens * self.training_length
        evaluation = replace(preset.protocol.evaluation, tokens=tokens)
        return replace(preset, protocol=replace(preset.protocol, evaluation=evaluation))

    def _preset(self, task: "Task", tasks: int, steps: int, batches: int) -> Preset:
        training = Training(
            steps=steps, learning_rate=2e-2, batch_size=32, clipnorm=1.0, evaluations=10, schedule="cosine"
        )
        size: dict[str, Any] = dict.fromkeys(("batch_size", "activation_batch_size"), 64)
        documents = max(batches * 64, 96 * task.num_rules)  # so that each has every language
        evaluation = Evaluation(batches=batches, tokens=documents * self.training_length, draws=5, **size)
        return Preset(task.num_rules, 32, tasks, 1, Protocol(training, evaluation))
