"""Your own experiment with images, in one file: `modtf run --plugin=images.py --arch=glyphs`.

A glyph of 8 x 8 pixels is seen through a filter, and a question is asked about it. Modules process both: the
rule of the first routed layer ("encoder") is the filter, the rule of the second ("answer") is the question.
Do the modules specialise in filters and questions?
"""

from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import modtf
from modtf.analysis import figures
from modtf.analysis.claims import advantage, mean_evidence
from modtf.datasets.families.base import RuleData
from modtf.models import ModularModel
from modtf.tasks.family import Variant
from modtf.tasks.observed import Place, Probe
from modtf.tasks.protocol import Evaluation, Preset, Protocol, Training

SIDE, CLASSES, EXAMPLES = 8, 4, 600
FILTERS = ("plain", "inverted", "turned", "mirrored")
QUESTIONS = ("which", "which_next")


class Glyphs(RuleData):
    """Example i shows glyph i, by absolute number: a finite set, in a new order every epoch."""

    def num_examples(self, split):
        return EXAMPLES if split == "train" else None

    @staticmethod
    def parameters(task):
        return {"class_of": np.random.RandomState(task.data_seed).permutation(CLASSES)}

    def bank(self):
        bars = np.zeros([CLASSES, SIDE, SIDE], np.uint8)
        for n, glyph in enumerate(bars):
            glyph[1 + n : 3 + n, 1:7] = glyph[1:7, 5 - n : 6 - n] = 200
        return {"glyphs": bars}

    def num_uniforms(self, num_tokens):
        return SIDE * SIDE + 2

    def examples(self, index, uniforms, parameters, *, noise=30.0, contrast=1.0, shift=0.0):
        numbers, glyph = uniforms.inputs, tf.cast(index % CLASSES, tf.int32)
        images = tf.cast(tf.gather(parameters["glyphs"], glyph), numbers.dtype)
        rules = tf.cast(numbers[:, :2] * [len(FILTERS), len(QUESTIONS)], tf.int32)
        turned = tf.reverse(tf.transpose(images, [0, 2, 1]), [1])
        seen = tf.stack([images, 255 - images, turned, tf.reverse(images, [2])], 1)
        images = tf.gather(seen, rules[:, 0], batch_dims=1) * tf.cast(contrast, images.dtype)
        images = tf.roll(images, tf.cast(shift, tf.int32), 2)
        images += tf.cast(noise, images.dtype) * tf.reshape(numbers[:, 2:] - 0.5, [-1, SIDE, SIDE])
        images = tf.cast(tf.clip_by_value(images, 0, 255), tf.uint8)[..., None]
        answer = tf.gather(parameters["class_of"], (glyph + rules[:, 1]) % CLASSES)
        return images, tf.add(rules, [0, len(FILTERS)]), tf.cast(answer, tf.int32)


def harder(group, values):
    """Yield the conditions of a group; all options are numbers of one type, so they share one program."""
    usual = {"noise": 30.0, "contrast": 1.0, "shift": 0.0}
    for n, value in enumerate(values):
        options = {name: np.float32({**usual, group: value}[name]) for name in usual}
        yield modtf.Condition(f"{group}_{n}", f"{group} {value:g}", options=options, group=group)


@modtf.register_family("glyphs")
class GlyphFamily(modtf.Family):
    title, data, architecture, settings = "Glyphs", Glyphs, "glyph_network", ("categorical",)
    input_dtype, inputs_by_token, target_by_token, training_length = "uint8", False, False, 2
    conditions = (
        modtf.Condition("iid", "as in training", True),
        *harder("noise", np.linspace(60, 240, 7)),
        *harder("contrast", (0.8, 0.6, 0.4, 0.3, 0.2, 0.1)),
        *harder("shift", (1, 2, 3, 4, 5, 6)),
    )
    groups, headline = ("noise", "contrast", "shift"), "noise"
    variants = (
        Variant("scored", "modules score themselves", router="modular"),
        Variant("taught", "taught, then let go", router="modular", trainer="images:teach_then_let_go"),
    )
    reference, oracle, checkpoint = "scored", None, "last"

    def token_shape(self, task):
        return SIDE, SIDE, 1

    def num_classes(self, task):
        return CLASSES

    def rule_names(self, task):
        return FILTERS + QUESTIONS

    def fixed_rules(self, options):
        return len(FILTERS + QUESTIONS)

    def places(self, task):
        filters, questions = range(len(FILTERS)), range(len(QUESTIONS))
        return {
            "encoder": Place("encoder", len(FILTERS), FILTERS, (0,), (*filters, None, None)),
            "answer": Place("answer", len(QUESTIONS), QUESTIONS, (1,), (*[None] * len(FILTERS), *questions)),
        }

    def probes(self, task):
        return (Probe("loudness", "features", Loudness, loudness),)

    def quick(self, task):
        training = Training(steps=400, learning_rate=3e-3, evaluations=10, batch_size=64)
        evaluation = Evaluation(batches=4, batch_size=100, tokens=2_000, draws=5, tokens_per_draw=400)
        return Preset(6, 8, 2, 1, Protocol(training, evaluation))

    published = quick  # there is no published protocol


@modtf.register_architecture("glyph_network")
class GlyphNetwork(ModularModel):
    """A network of Keras layers. Members train one after the other, and CPUs do not use XLA."""

    has_members_axis, compiled_by_xla = False, False

    def make_layers(self):
        first = self.make_router(len(FILTERS), place="encoder")
        last = self.make_router(len(QUESTIONS), place="answer")
        width = self.width
        self.encoders = keras.layers.Conv2D(width * first.num_modules, 3, strides=2, activation="relu")
        self.squeeze = keras.layers.Dense(4 * width, activation="relu")
        self.scores = [keras.layers.Dense(router.num_modules) for router in (first, last)]
        self.answers = keras.layers.Dense(CLASSES * last.num_modules)

    def mixed(self, proposals, rule, place, seen):
        """Return sum_m p_m y_m of proposals [B, ..., M y], and p [B, 1, M]."""
        scores = self.scores[place == "answer"](ops.concatenate([seen, ops.one_hot(rule[:, 0], 6)], axis=1))
        p = self.route(rule, None, lambda: scores[:, None], place)
        modules = p.shape[-1]
        split = ops.reshape(proposals, [-1, modules, proposals.shape[-1] // modules])
        return ops.einsum("bm,bmy->by", p[:, 0], split), p

    def forward(self, inputs, rule):
        images = inputs / 255.0
        seen = self.encoders(images)
        places = seen.shape[1] * seen.shape[2]
        modules = self.routers["encoder"].num_modules
        seen = ops.transpose(ops.reshape(seen, [-1, places, modules, self.width]), [0, 2, 1, 3])
        flat = ops.reshape(seen, [-1, seen.shape[1] * places * self.width])
        features, first = self.mixed(flat, rule[:, :1], "encoder", ops.reshape(images, [-1, SIDE * SIDE]))
        features = self.squeeze(features)
        target, last = self.mixed(self.answers(features), rule[:, 1:], "answer", features)
        return {
            "target": target,
            "features": features,
            "activation_encoder": first,
            "activation_answer": last,
        }


def teach_then_let_go(context, pace=3.0):
    """Train in two stages: half of the steps at `pace` times the rate, then the rest."""
    half = context.training.steps // 2
    fast = replace(context.training, learning_rate=pace * context.training.learning_rate)
    context.fit("taught", context.model, None, half, training=fast, measured=False)
    context.fit("let_go", context.model, None, context.training.steps - half)


class Loudness(keras.metrics.Metric):
    """The mean feature of a condition."""

    def __init__(self, population, width):
        super().__init__(name="loudness")
        self.sum, self.count = (self.add_variable([], "zeros", name=name) for name in ("sum", "count"))

    def update_state(self, target, output, sample_weight=None):
        self.sum.assign_add(ops.sum(output))
        self.count.assign_add(ops.cast(ops.size(output), "float32"))


def loudness(found):
    return {("loudness", condition): values["sum"] / values["count"] for condition, values in found.items()}


@modtf.register_figure("loudness")
def loudness_figure(study, choice):
    rows = study.results.query("measure == 'loudness'")
    table, note = figures.average(study, rows, ["condition", "measure", "variant"])
    yield figures.panels(figures.bars, table, name="loudness", title="Loudness", note=note, column="measure")


@modtf.register_claim(
    "teaching_helps", families=["glyphs"], figure="performance_vs_num_rules",
    text="who is taught first answers better", statistic="relative reduction of the error",
)  # fmt: skip
def teaching_helps(study):
    yield mean_evidence(advantage(study, "taught", "scored"), "advantage", "taught over scored")
