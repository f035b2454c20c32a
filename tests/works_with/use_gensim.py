"""gensim reads the word vectors and finds the same neighbours; what it writes is read again."""

import numpy as np
from gensim.models import KeyedVectors
from published import load, same

model = load("AutoModel", "words")
WORDS = ["cat", "king", "sea"]

for binary in (False, True):
    model.save_word2vec_format("vectors", binary=binary)
    theirs = KeyedVectors.load_word2vec_format("vectors", binary=binary)
    assert theirs.index_to_key == model.index_to_key
    np.testing.assert_array_equal(theirs.vectors, model.vectors)
    for word in WORDS:
        ours = dict(model.most_similar(word, topn=5))
        expected = dict(theirs.most_similar(word, topn=5))
        assert list(ours) == list(expected)
        same(list(ours.values()), list(expected.values()))
    sums = {"positive": ["king", "cat"], "negative": ["sea"], "topn": 3}
    assert [word for word, _ in model.most_similar(**sums)] == [word for word, _ in theirs.most_similar(**sums)]

keyed = model.to_gensim()
assert keyed.index_to_key == model.index_to_key
assert [keyed.get_vecattr(word, "count") for word in WORDS] == [model.get_vecattr(word, "count") for word in WORDS]
np.testing.assert_array_equal(keyed.vectors, model.vectors)
