"""The languages of a corpus as Markov chains over words, and what follows from them exactly. NumPy alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modtf.experiments.languages.family import CLASSES, FUNCTION_WORDS
from modtf.tasks.task import Task

COMMON_SHARE = {"rows": 0.1, "classes": 0.05}  # of the unigram in every row
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Corpus:
    """R languages over V words. The next word depends on the language and on the word before it."""

    rows: Array  # p(next word | language, word), [R, V, V]
    changed: Array  # the same, where half of the words follow other frequencies of the language
    start: Array  # the stationary law of `rows`, [R, V]: a document's first word


def corpus_of(task: Task) -> Corpus:
    """Draw the languages of a task from `RandomState(data_seed)`, in this order.

    Both laws begin with the unigram u ~ Dirichlet(1) over V words.

    `rows`: the common rows c_w ~ Dirichlet(.1), one for each word; word frequencies of the languages,
    b_r = .95 Dirichlet(.3) + .05 / V; each language's rows for its words, Dirichlet(.1 V b_r), language by
    language; a permutation of the words, of which the first 16, the function words, have the common row in
    all languages. Every row is then .9 row + .1 u.

    `classes`: a permutation of the words, of which every 16th is in the same class; the grammars, class to
    class, Dirichlet(.1); the lexicons, class to its words, Dirichlet(1), language by language. Every row is
    then .95 row + .05 u.

    Last come the other frequencies of the condition "changed", drawn as b_r.
    """
    rng, languages, size = np.random.RandomState(task.data_seed), task.num_rules, task.vocabulary
    unigram = rng.dirichlet(np.ones(size))

    def frequencies() -> Array:
        return 0.95 * rng.dirichlet(np.full(size, 0.3), size=languages) + 0.05 / size

    if task.law == "rows":
        common = rng.dirichlet(np.full(size, 0.1), size=size)
        each = frequencies()
        rows = np.stack([rng.dirichlet(0.1 * size * b, size=size) for b in each])
        function_words = rng.permutation(size)[:FUNCTION_WORDS]
        rows[:, function_words] = common[function_words]
    else:
        classes = np.empty(size, int)
        classes[rng.permutation(size)] = np.arange(size) % CLASSES
        grammars = rng.dirichlet(np.full(CLASSES, 0.1), size=(languages, CLASSES))
        rows = np.empty([languages, size, size])
        for language in range(languages):
            lexicon = np.zeros(size)  # p(word | its class)
            for number in range(CLASSES):
                members = np.flatnonzero(classes == number)
                lexicon[members] = rng.dirichlet(np.ones(len(members)))
            rows[language] = grammars[language][classes][:, classes] * lexicon
    share = COMMON_SHARE[task.law]
    rows = (1 - share) * rows + share * unigram
    changed = 0.5 * rows + 0.5 * frequencies()[:, None]
    return Corpus(rows, changed, np.stack([stationary(one) for one in rows]))


def stationary(rows: Array) -> Array:
    """Return the law [V] that a chain with these rows [V, V] keeps."""
    size = len(rows)
    equations = np.vstack([rows.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
