from doap_tf.counts import count


def test_numbers_have_their_nouns():
    counted = [count(*pair) for pair in ((1, "match"), (2000, "match"), (0, "pair"))]
    assert counted == ["1 match", "2,000 matches", "0 pairs"]
