import tracemalloc

import numpy as np

from modtf.metrics import ActivationAccumulator


def test_memory_does_not_grow_with_the_number_of_tokens(monkeypatch):
    monkeypatch.setattr("modtf.metrics.tokens.sums.KEPT", 50_000)
    labels = np.arange(5000) % 4
    gates = (0.6 * np.eye(4) + 0.1)[labels].astype(np.float32)
    accumulator = ActivationAccumulator(top_k=2)
    tracemalloc.start()
    try:
        peaks = []
        for _ in range(4):
            for _ in range(10):
                accumulator.update(gates, labels)
            peaks.append(tracemalloc.get_traced_memory())
            tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    current, peak = np.array(peaks).T
    one_round = 10 * gates.nbytes
    assert current[-1] < current[1] + 0.05 * one_round
    assert peak[-1] < peak[1] + 0.05 * one_round
    assert accumulator.result(permutations=2)[0].mass.values["alignment"].value > 0
