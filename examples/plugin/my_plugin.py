"""A family of tasks, a network for it, a router, a measure, a figure: `modtf run --plugin=my_plugin.py`."""

import numpy as np
import tensorflow as tf
from keras import ops

import modtf
from modtf.analysis import figures, with_kinds
from modtf.datasets.families.base import RuleData
from modtf.models import Dense, Mixture, ModularModel, Router, flat
from modtf.tasks.families import presets, published_conditions


class Waves(RuleData):  # y = wave(slope_c x)
    @staticmethod
    def parameters(task):
        return {"slope": np.random.RandomState(task.data_seed).randn(task.num_rules)}

    def outputs(self, parameters, inputs, rule):
        phase = tf.gather(parameters["slope"], rule) * inputs[..., 0]
        return {"sine": tf.sin, "tent": tf.abs}[self.task.wave](phase)


@modtf.register_family("my_family")
class MyFamily(modtf.Family):
    title, data, architecture, is_sequence = "Waves", Waves, "my_network", False
    options = (modtf.Option("wave", "sine", "shape of the wave", choices=("sine", "tent")),)
    conditions, headline = published_conditions(scales=(1.0, 3.0)), "scale3"

    def token_width(self, task):
        return 1

    def quick(self, task):
        return presets.quick_preset(num_rules=4, tasks=2, seeds=2, steps=2_000, learning_rate=1e-3)

    published = quick  # there is no published protocol


@modtf.register_architecture("my_network")
class MyNetwork(ModularModel):
    def make_layers(self, hidden=16):
        router = self.router = self.make_router(self.num_rules)
        modules, scored = router.num_modules, router.needs_scores
        self.first = Dense(self.initial, 1 + self.num_rules, modules * hidden, "first")
        self.last = Mixture(self.initial, modules, hidden, 1, "last", with_scores=scored)

    def forward(self, inputs, rule):
        rule = flat(rule)
        h = ops.relu(self.first(ops.concatenate([flat(inputs), rule], axis=1)))
        p = self.route(rule, rule, lambda: self.last.scores(h))
        return self.last(h, p), p


@modtf.register_router("my_router")
class MyRouter(Router):  # two modules per rule score themselves; a penalty keeps their load even
    needs_scores, penalty_name, tunable = True, "unevenness", ("strength=0.01:1:log",)

    def __init__(self, setup, *, modules=None, strength=0.1):
        super().__init__(setup, modules=modules or 2 * setup.num_rules)
        self.strength = strength

    def call(self, rule=None, rule_features=None, scores=None):
        return ops.softmax(scores, axis=1)

    def penalty(self, activation):
        return self.strength * ops.var(ops.mean(activation, axis=2), axis=1)


@modtf.register_measure("my_measure", group="specialisation", range=(0, 1), perfect=0,
                        description="1 - the largest p(m | r)", axis_label="Indecision")  # fmt: skip
def my_measure(A):
    return float(1 - A.max(axis=1).mean())


@modtf.register_figure("my_figure")
def my_figure(study, choice):
    rows = with_kinds(study.results.query("measure == 'my_measure'"))
    table, note = figures.average(study, rows, ["kind", "measure", "variant"])
    yield figures.panels(figures.bars, table, name="my_figure", title="Indecision", note=note, column="kind")
