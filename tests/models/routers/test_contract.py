"""The contract of a router: its errors, and its options (passed, rejected, recorded)."""

import numpy as np
import plugin_routers
import pytest
from keras import ops

import modtf
from modtf import Population, Task, build
from modtf.base.registry import options_of
from modtf.models import Router
from modtf.models.routers import ROUTERS, register_router

WIDTH = 5


class Whole(Router):
    def call(self, rule=None, rule_features=None, scores=None):
        return rule


def penalty(self, activation):
    return ops.mean(activation, axis=(1, 2))


@pytest.mark.parametrize(
    ("router", "message"),
    [
        (
            {"extra_input": lambda self, rule, training: rule},
            r"has extra_input\(rule, training\), but its call",
        ),
        (
            {"penalty_name": "price", "penalises_scores": True, "penalty": penalty},
            "it also needs needs_scores = T",
        ),
        ({"call": Router.call}, r"does not define call\(rule, rule_features, scores\)"),
        ({"penalty": penalty}, r"has penalty_name=None and a method penalty\(activation\); give both or nei"),
        ({"penalty_name": "nothing"}, r"has penalty_name='nothing' and no method penalty"),
        ({"penalty_name": "Two words", "penalty": penalty}, "'Two words' is not a valid name of the penalty"),
        ({"penalty_name": "seconds", "penalty": penalty}, "'seconds' cannot be the name of the penalty"),
        ({"penalty_name": "loss", "penalty": penalty}, "'loss' cannot be the name of the penalty of the r"),
    ],
)
def test_what_is_no_router_is_refused(router, message, registries):
    with pytest.raises(ValueError, match=message):
        register_router("new")(type("New", (Whole,), router))
    assert "new" not in ROUTERS


def test_the_example_of_the_documentation_works(documented, random_batch):
    documented(Router, "@modtf.register_router", "Args:")
    task = Task(num_rules=3)
    model = build([task], "even", WIDTH, router={"modules": 6, "strength": 2.0})
    outputs = model(random_batch([task])[0])
    assert outputs["activation"].shape[-1] == 6
    usage = outputs["activation"].numpy().reshape([-1, 6]).mean(axis=0)
    np.testing.assert_allclose(model.losses[0], 2 * ((usage - 1 / 6) ** 2).sum(), rtol=1e-4)


@pytest.mark.parametrize(
    ("variant", "router", "message"),
    [
        ("plugin_even", {"temperature": 0}, r"temperature=0: temperature=0 must be above 0\. Its options"),
        ("plugin_even", {"temperature": "hot"}, r"cannot be built with temperature='hot'.* Its options: mod"),
        ("modular", {"modules": 2.5}, "modules=2.5 is not valid; expected an integer of at least 1"),
        ("top_k", {"k": 4}, "k=4 is not valid; expected at most 3"),
        ("top_k", {"modules": 1}, "k=2 is not valid; expected at most 1"),
        ("bias_balanced", {"k": 4}, "k=4 is not valid; expected at most 3"),
        ("balanced", {"k": 4}, "k=4 is not valid; expected at most 3"),
        (
            "balanced",
            {"balance": "bias"},
            "balance='bias' changes which modules are chosen, but k=3 chooses all",
        ),
        ("balanced", {"strength": 0.1}, "strength=0.1 has a meaning for balance='auxiliary' only"),
        ("balanced", {"k": 1, "balance": "bias", "scope": "sequence"}, "scope='sequence' has a meaning for"),
        ("balanced", {"balance": "auxiliary", "rate": 0.1}, "rate=0.1 has a meaning for balance='bias' only"),
        ("gumbel", {"modules": 128}, "modules=128 is not valid"),
        ("expert_choice", {"capacity": 4}, "capacity=4 is not valid; expected a number between 0.001 and 3"),
        ("clamped", {"amount": 2.0}, "amount=2.0"),
        ("clamped", {"matrix": "block", "amount": 2}, "expected a divisor of the 3 rules"),
        ("clamped", {"matrix": "collapsed", "amount": 1}, "expected an even divisor of the 3 rules"),
        ("clamped", {"from_step": 5, "until_step": 4}, "until_step=4 is not valid"),
        ("clamped", {"of": "nowhere"}, "nowhere does not hold a final activation matrix for every member"),
        ("clamped", {"of": "nowhere", "amount": 0.5}, "set the routing matrix twice"),
    ],
)
def test_options_that_are_refused(variant, router, message, plugins):
    with pytest.raises(ValueError, match=message):
        build(Task(num_rules=3), variant, WIDTH, router=router)


@pytest.mark.parametrize("variant", ROUTERS)
def test_every_option_is_checked_and_no_other_is_known(variant):
    """-1 is wrong for all of them."""
    known = options_of(ROUTERS[variant], "__init__", skip=2)
    for option in known:
        with pytest.raises(
            ValueError, match=f"variant='{variant}' cannot be built with {option}=-1: .*expected"
        ):
            build(Task(num_rules=3), variant, WIDTH, router={option: -1})
    words = f"heat=1 is not an option .*'{variant}'; its options: {', '.join(known) or 'none'}"
    with pytest.raises(ValueError, match=words):
        build(Task(num_rules=3), variant, WIDTH, router={"heat": 1})


def test_an_option_without_a_default(registries):
    @register_router("needy")
    class Needy(Whole):
        def __init__(self, setup, *, sharpness):
            super().__init__(setup)

    with pytest.raises(ValueError, match=r"The option 'sharpness' of .*'needy' has no default. Give it"):
        build(Task(), "needy", WIDTH)
    assert build(Task(), "needy", WIDTH, router={"sharpness": 1}).num_modules == 2


def test_options_that_are_passed_on(registries):
    """`**options` are passed on to the base class."""

    @register_router("hotter")
    class Hotter(plugin_routers.Even):
        def __init__(self, setup, *, temperature=3.0, **options):
            super().__init__(setup, temperature=2 * temperature, **options)

    assert options_of(Hotter, "__init__", skip=2) == {"modules": None, "strength": 0.5, "temperature": 3.0}
    model = build(Task(), "hotter", WIDTH, router={"modules": 4})
    assert (model.router.temperature, model.num_modules) == (6.0, 4)


@pytest.mark.parametrize("modules", [None, 4])
def test_a_wrong_shape_is_refused(arch, modules, registries, random_batch):
    """A router that ignores `modules`, scored or not, and a penalty of a wrong shape."""

    @register_router("forgetful")
    class Forgetful(Whole):
        needs_scores = modules is None

        def call(self, rule=None, rule_features=None, scores=None):
            return rule if scores is None else scores[:, :1]

    @register_router("careless")
    class Careless(Whole):
        penalty_name = "usage"

        def penalty(self, activation):
            return ops.mean(activation)

    task = Task(arch, num_rules=3)
    model = build([task], "forgetful", WIDTH, router={"modules": modules})
    with pytest.raises(
        ValueError, match=r"Forgetful.call returned p of shape .* expected \[P, M, T\] with M = "
    ):
        model(random_batch([task])[0])
    model = build([task] * 2, "careless", WIDTH, [0, 1])
    with pytest.raises(
        ValueError, match=r"Careless.penalty returned the shape \(\); expected \(2,\), one number per member"
    ):
        model(random_batch([task] * 2)[0])


#: fault in p [P, M, T], made from the scores -> error message at the first call
UNSOUND = {
    "sum to 1. Apply a softmax over axis 1": lambda scores: ops.sigmoid(scores),
    "between nan and nan": lambda scores: ops.log(ops.softmax(scores, axis=1) - 2),
    "mixes members": lambda scores: ops.softmax(scores - ops.mean(scores, axis=0, keepdims=True), axis=1),
    "mixes the batch": lambda scores: ops.softmax(scores + ops.cumsum(scores, axis=2), axis=1),
}


@pytest.mark.parametrize("wrong", UNSOUND)
def test_what_no_shape_tells_is_refused_at_the_first_call(arch, wrong, registries, random_batch):
    @register_router("unsound")
    class Unsound(Whole):
        needs_scores = True

        def call(self, rule=None, rule_features=None, scores=None):
            return UNSOUND[wrong](scores)

    tasks = [Task(arch, num_rules=3, data_seed=i) for i in range(2)]
    model = build(tasks, "unsound", WIDTH, [0, 0])
    with pytest.raises(ValueError, match=rf"^The router 'unsound' \(Unsound\) .*{wrong}"):
        model(random_batch(tasks)[0])
    with pytest.raises(ValueError, match=wrong):
        modtf.train(model, tasks, steps=1, seed=[0, 0], verbose=False)


def test_an_architecture_that_hands_on_no_scores(registries, random_batch):
    class Silent(type(build(Task(), "modular", WIDTH))):  # type: ignore[misc]
        def forward(self, inputs, rule):
            return super().forward(inputs, rule)[:2]

    model = Silent(Population.of([Task()]), "z_loss", WIDTH)
    with pytest.raises(ValueError, match=r"Silent.forward returns \(outputs, p\), but variant='z_loss'"):
        model(random_batch([Task()])[0])
