"""The laws of languages, and documents drawn from them, against direct computation."""

import itertools

import numpy as np
import pytest

import modtf
from modtf.experiments.languages.family import SWITCH_PLACES
from modtf.experiments.languages.laws import corpus_of

LAWS = ("rows", "classes")
COUNTED = slice(16, None)


def documents(task, count=2_048, split="test", **how):
    features, target = next(iter(modtf.stream(task, count, split, **how)))
    return features["inputs"].numpy(), features["rule"].numpy(), target.numpy()


def bayes(corpus, words, switches=False):
    """Return the next-word law of a predictor that knows all languages but must infer which one it reads.

    With `switches` it is a hidden chain over pairs of the language and the place of the change. Documents
    [G, T] give the laws [G, T - 1, V] of words 1 .. T - 1.
    """
    languages, length = len(corpus.rows), words.shape[1]
    places = np.arange(SWITCH_PLACES[0], SWITCH_PLACES[1] + 1) if switches else np.array([length])
    # states: (first language, place of the change, second language)
    first, place, second = (
        x.ravel() for x in np.meshgrid(range(languages), places, range(languages), indexing="ij")
    )
    possible = (first != second) if switches else (first == second)
    first, place, second = first[possible], place[possible], second[possible]
    logs = np.log(corpus.start[first][:, words[:, 0]]).T  # [G, states]
    laws = np.empty([len(words), length - 1, corpus.rows.shape[1]])
    for t in range(length - 1):
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        now = np.where(t + 1 < place, first, second)
        by_language = weights @ np.eye(languages)[now]
        by_language /= by_language.sum(axis=1, keepdims=True)
        laws[:, t] = np.einsum("gr,rgv->gv", by_language, corpus.rows[:, words[:, t]])
        logs = logs + np.log(corpus.rows[now[None], words[:, t, None], words[:, t + 1, None]])
    return laws


def excess(law, predicted):
    """Return KL(law, predicted) in nats over the last axis."""
    return (law * np.log(law / predicted)).sum(axis=-1)


def blind_excess(corpus):
    """Return the excess of the best predictor that sees the last word alone, and not the language."""
    joint = corpus.start[:, :, None] * corpus.rows / len(corpus.rows)
    bigram = joint.sum(axis=0)
    bigram /= bigram.sum(axis=1, keepdims=True)
    return float((corpus.start * excess(corpus.rows, bigram)).sum(axis=1).mean())


@pytest.mark.parametrize("law", LAWS)
def test_laws(law):
    """Rows and starts are distributions, starts are stationary, and the entropy is as in the pilots."""
    corpus = corpus_of(modtf.Task("languages", law=law, data_seed=3))
    for rows in (corpus.rows, corpus.changed, corpus.start):
        assert rows.min() > 0
        np.testing.assert_allclose(rows.sum(axis=-1), 1)
    powers = [np.linalg.matrix_power(one, 2_000)[0] for one in corpus.rows]
    np.testing.assert_allclose(corpus.start, powers, atol=1e-9)
    terms = itertools.product(range(8), range(64), range(64))
    rate = -sum(corpus.start[r, w] * corpus.rows[r, w, v] * np.log(corpus.rows[r, w, v]) for r, w, v in terms)
    assert 2.2 < rate / 8 < 2.8
    assert 0.6 < blind_excess(corpus) < 1.1


def test_what_languages_share():
    """16 function words have the same row in all languages; words of a class are preceded alike."""
    rows = corpus_of(modtf.Task("languages")).rows
    assert (np.ptp(rows, axis=0).max(axis=1) < 1e-12).sum() == 16
    rows = corpus_of(modtf.Task("languages", law="classes")).rows
    for one in rows:
        assert len(np.unique(one.round(9), axis=0)) == 16


@pytest.mark.parametrize("switches", [False, True])
def test_bayes_predictor(switches):
    """Its law is a ratio of sums over all languages, and places of the change, of products over words."""
    task = modtf.Task("languages", languages=3, vocabulary=20, switches=int(switches))
    corpus = corpus_of(task)
    words = documents(task, 4)[0][:, :20]
    places = range(16, 49) if switches else [99]
    states = [s for s in itertools.product(range(3), places, range(3)) if (s[0] != s[2]) == switches]

    def probability(document):
        total = 0.0
        for first, place, second in states:
            p = corpus.start[first, document[0]]
            for t in range(1, len(document)):
                p *= corpus.rows[second if t >= place else first, document[t - 1], document[t]]
            total += p
        return total

    laws = bayes(corpus, words, switches)
    for document, law in zip(words, laws, strict=True):
        for t in (0, 7, 16, 18):
            asked = [probability([*document[: t + 1], word]) for word in range(20)]
            np.testing.assert_allclose(law[t], np.array(asked) / probability(document[: t + 1]), rtol=1e-8)


@pytest.mark.parametrize(("law", "changed"), [*itertools.product(LAWS, [False]), ("rows", True)])
def test_words_follow_the_rows(law, changed):
    task = modtf.Task("languages", law=law)
    corpus = corpus_of(task)
    words, rule, _ = documents(task, 8_192, condition="changed" if changed else "iid")
    assert (rule == rule[:, :1]).all()
    np.testing.assert_allclose(np.bincount(rule[:, 0]) / len(rule), 1 / 8, atol=0.02)
    own = words[rule[:, 0] == 5]
    starts = np.bincount(own[:, 0], minlength=64)
    expected = len(own) * corpus.start[5]
    assert ((starts - expected) ** 2 / expected).sum() < 64 + 5 * np.sqrt(2 * 64)  # chi-squared
    rows = (corpus.changed if changed else corpus.rows)[5]
    word = np.bincount(own.ravel()).argmax()
    at = np.argwhere(own[:, :-1] == word)
    after = np.bincount(own[at[:, 0], at[:, 1] + 1], minlength=64)
    expected = len(at) * rows[word]
    assert ((after - expected) ** 2 / expected).sum() < 64 + 5 * np.sqrt(2 * 64)


def test_targets():
    """In training the next word; in evaluation the law of the language, whose mean weight is 1."""
    task = modtf.Task("languages", data_seed=2)
    corpus, steps = corpus_of(task), {}
    words, _, target = documents(task, 64, "train")
    assert (target.argmax(axis=2)[:, :-1] == words[:, 1:]).all()
    assert (target.sum(axis=2) == 1).all()
    for name in ("iid", "switching", "changed", "long"):
        words, rule, target = steps[name] = documents(task, 64, condition=name)
        weight = target.sum(axis=2)
        np.testing.assert_allclose(weight.mean(), 1, rtol=1e-6)
        assert (weight[:, :16] == 0).all()
        law = corpus.rows[rule, words][:, COUNTED]
        np.testing.assert_allclose(target[:, COUNTED] / weight[:, COUNTED, None], law, rtol=1e-6)
    assert steps["long"][0].shape == (64, 127)


def test_a_language_changes_once():
    words, rule, _ = documents(modtf.Task("languages", switches=1))
    switched = rule[:, 1:] != rule[:, :-1]
    assert (switched.sum(axis=1) == 1).all()
    places = switched.argmax(axis=1) + 2  # the next word is the first of the other language
    assert (places.min(), places.max()) == (16, 48)
    np.testing.assert_allclose(np.bincount(places)[16:], len(words) / 33, rtol=0.5)
    step = (rule[:, -1] - rule[:, 0]) % 8
    np.testing.assert_allclose(np.bincount(step)[1:], len(words) / 7, rtol=0.3)


def test_what_the_best_predictors_reach():
    """From position 16 on nothing is lost by inferring the language, unless it changes."""
    lost = {}
    for switches in (0, 1):
        task = modtf.Task("languages", data_seed=1, switches=switches)
        words, rule, _ = documents(task, 256)
        corpus = corpus_of(task)
        law = corpus.rows[rule[:, :-1], words[:, :-1]]
        lost[switches] = excess(law, bayes(corpus, words, bool(switches)))
    assert lost[0][:, COUNTED].mean() < 1e-9
    assert 0.02 < lost[0].mean() < 0.03
    assert 0.08 < lost[1].mean() < 0.12


@pytest.mark.parametrize("members", [1, 3])
def test_a_stream_is_a_function_of_its_index(members):
    tasks = [modtf.Task("languages", data_seed=seed) for seed in range(members)]
    stream = list(modtf.stream(tasks, 8, "train").take(4))
    ((features, target),) = modtf.stream(tasks, 8, "train", start_step=3).take(1)
    np.testing.assert_array_equal(stream[3][1], target)
    alone, _ = list(modtf.stream(tasks[-1], 8, "train").take(4))[3]
    np.testing.assert_array_equal(features["inputs"][:, -1], alone["inputs"])
    other = next(iter(modtf.stream(tasks, 8, "validation")))[0]["inputs"]
    assert (stream[0][0]["inputs"].numpy() != other.numpy()).any()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"vocabulary": 16}, "vocabulary=16 leaves the languages no words of their own"),
        ({"vocabulary": 15, "law": "classes"}, "expected at least 16 for law=classes"),
        ({"switches": 2}, "switches=2 is not valid; expected an integer of at most 1"),
        ({"num_rules": 4}, "num_rules=4 is not valid; expected 8"),
    ],
)
def test_invalid_tasks(how, message):
    with pytest.raises(ValueError, match=message):
        modtf.Task("languages", **how)


def test_a_document_that_is_too_short():
    with pytest.raises(ValueError, match="seq_len=16 is not valid; expected an integer of at least 17"):
        modtf.stream(modtf.Task("languages"), 8, seq_len=16)
