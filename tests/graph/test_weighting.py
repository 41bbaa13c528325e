import numpy as np
import pytest
import scipy.sparse as sp

import naq
from naq.errors import OptionError
from naq.graph import resolve, weighted

COUNTS = sp.csr_array(np.array([[3.0, 0, 1, 0], [0, 0, 2, 0], [1, 1, 1, 0], [0, 0, 0, 0]]))


def graph(features=COUNTS):
    return naq.Graph([[0, 1], [1, 2]], features, [0, 1, 0, 1], nodes=4, vocab=list("abcd"), names=list("wxyz"))


def test_tfidf_rows_have_the_mean_length_of_binary_rows():
    found = weighted(graph(), "tfidf")
    lengths = np.sqrt((found.features.toarray() ** 2).sum(axis=1))
    assert np.allclose(lengths, [np.sqrt(6 / 4)] * 3 + [0], atol=1e-6)
    assert found.names.tolist() == list("wxyz") and found.vocab.tolist() == list("abcd")
    assert np.array_equal(found.labels, graph().labels)


def test_binary_and_raw():
    assert np.array_equal(weighted(graph(), "binary").features.toarray(), (COUNTS.toarray() > 0).astype(np.float32))
    one = graph()
    assert weighted(one, "raw") is one


def test_auto_is_tfidf_for_counts_only():
    assert resolve(graph(), "auto") == "tfidf"
    dense = np.random.default_rng(0).standard_normal((4, 4))
    assert resolve(graph(dense), "auto") == "raw"
    assert resolve(graph(sp.csr_array(-COUNTS)), "auto") == "raw"


def test_bad_weightings_are_one_sentence():
    with pytest.raises(OptionError, match="expected auto or one of raw, binary, tfidf"):
        weighted(graph(), "idf")
    with pytest.raises(OptionError, match="needs sparse, non-negative features"):
        weighted(graph(sp.csr_array(-COUNTS)), "tfidf")
