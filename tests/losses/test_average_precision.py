import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from doap_tf.losses import FORMS, AveragePrecisionLoss, histogram_average_precision
from doap_tf.losses.distances import DISTANCES
from tests.losses import reference


def descriptors(generator, count, dimension, distance, dtype=np.float64):
    rows = reference.unit_rows(generator, count, dimension)
    if distance == "hamming":
        rows = np.tanh(3 * generator.normal(size=rows.shape))
    return rows.astype(dtype)


def value_and_gradients(queries, database, relations, jit=False, **options):
    queries, database = tf.constant(queries), tf.constant(database)
    weights = tf.cast(tf.range(1, len(queries) + 1), queries.dtype)  # queries must not mix

    @tf.function(jit_compile=jit)
    def run(queries, database):
        with tf.GradientTape() as tape:
            tape.watch([queries, database])
            values = histogram_average_precision(queries, database, relations, **options)
            total = tf.reduce_sum(weights * tf.cast(values, weights.dtype))
        return values, *tape.gradient(total, [queries, database])

    return [output.numpy() for output in run(queries, database)]


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    queries=st.integers(1, 6),
    database=st.integers(1, 12),
    dimension=st.integers(2, 9),
    bins=st.integers(2, 30),
)
def test_equals_brute_force(form, distance, seed, queries, database, dimension, bins):
    generator = np.random.default_rng(seed)
    left = descriptors(generator, queries, dimension, distance)
    right = descriptors(generator, database, dimension, distance)
    relations = generator.integers(-1, 2, size=[queries, database])
    wanted = reference.average_precision(left, right, relations, distance, bins, form)
    options = {"distance": distance, "bins": bins, "form": form}
    got = histogram_average_precision(left, right, relations, **options)
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    # In float32 the distance of two nearly equal descriptors is off by up to 5e-4.
    rounded = histogram_average_precision(left.astype(np.float32), right, relations, **options)
    assert rounded.dtype == tf.float32
    np.testing.assert_allclose(rounded, wanted, atol=5e-3)


def on_circle(distances):
    """A query and a list of unit vectors in the plane at the given distances from it."""
    angles = 2 * np.arcsin(np.asarray(distances) / 2)
    return np.array([[1.0, 0.0]]), np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_tie_aware_is_exact_on_distinct_bin_centres():
    generator = np.random.default_rng(0)
    for _ in range(20):
        bins = int(generator.integers(10, 60))
        size = int(generator.integers(2, bins))
        steps = generator.choice(bins + 1, size=size, replace=False)
        relevant = generator.random(size) < 0.4
        relevant[0] = True
        query, database = on_circle(steps * 2 / bins)
        got = histogram_average_precision(
            query, database, np.where(relevant, 1, -1)[np.newaxis], bins=bins
        )
        np.testing.assert_allclose(got[0], average_precision_score(relevant, -steps), atol=1e-6)


def test_tie_aware_is_close_to_exact_with_many_bins():
    generator = np.random.default_rng(1)
    fine = tf.function(lambda *inputs: histogram_average_precision(*inputs, bins=10_000))
    for _ in range(5):
        distances = generator.uniform(0, 2, size=200)
        relevant = generator.random(200) < 0.1
        query, database = on_circle(distances)
        got = fine(query, database, np.where(relevant, 1, -1)[np.newaxis])
        assert abs(float(got[0]) - average_precision_score(relevant, -distances)) < 0.01


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_gradient_equals_finite_differences(form, distance, chunk_size):
    generator = np.random.default_rng(2)
    left = descriptors(generator, 4, 5, distance)
    right = descriptors(generator, 9, 5, distance)
    relations = generator.integers(-1, 2, size=[4, 9])
    options = {"distance": distance, "bins": 7, "form": form}
    _, by_left, by_right = value_and_gradients(
        left, right, relations, chunk_size=chunk_size, **options
    )

    def total(left, right):
        values = reference.average_precision(left, right, relations, distance, 7, form)
        return (values * np.arange(1, 5)).sum()

    step = 1e-6
    for side, gradient in ((0, by_left), (1, by_right)):
        for place in np.ndindex(gradient.shape):
            sums = []
            for sign in (1, -1):
                moved = [left.copy(), right.copy()]
                moved[side][place] += sign * step
                sums.append(total(*moved))
            assert abs((sums[0] - sums[1]) / (2 * step) - gradient[place]) < 1e-5


def dense_average_precision(queries, database, relations, distance, bins, form):
    """The same with an [M, M, b] tensor, differentiated by TensorFlow."""
    products = tf.matmul(queries, database, transpose_b=True)
    if distance == "euclidean":
        values, largest = tf.sqrt(2 - 2 * products), 2.0
    elif distance == "squared":
        values, largest = 2 - 2 * products, 4.0
    else:
        values, largest = (queries.shape[1] - products) / 2, float(queries.shape[1])
    width = largest / bins
    centres = tf.range(bins + 1, dtype=queries.dtype) * width
    kernel = tf.nn.relu(1 - tf.abs(values[..., tf.newaxis] - centres) / width)
    positive = tf.cast(relations == 1, queries.dtype)[..., tf.newaxis]
    related = tf.cast(relations != 0, queries.dtype)[..., tf.newaxis]
    found = tf.reduce_sum(kernel * positive, axis=1)
    found_sum = tf.cumsum(found, axis=1)
    seen_sum = tf.cumsum(tf.reduce_sum(kernel * related, axis=1), axis=1)
    if form == "tie_aware":
        before = tf.pad(seen_sum, [[0, 0], [1, 0]])[:, :-1]
        ratio = (2 * found_sum - found + 1) / (seen_sum + before + 1)
    else:
        ratio = tf.math.divide_no_nan(found_sum, seen_sum)
    counts = tf.maximum(tf.reduce_sum(positive, axis=[1, 2]), 1)
    return tf.reduce_sum(found * ratio, axis=1) / counts


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("form", FORMS)
def test_gradient_equals_automatic_differentiation(form, distance):
    generator = np.random.default_rng(3)
    left = tf.constant(descriptors(generator, 20, 16, distance))
    right = tf.constant(descriptors(generator, 50, 16, distance))
    relations = generator.integers(-1, 2, size=[20, 50])
    options = {"distance": distance, "bins": 16, "form": form}
    _, *gradients = value_and_gradients(left, right, relations, **options)
    with tf.GradientTape() as tape:
        tape.watch([left, right])
        values = dense_average_precision(left, right, relations, **options)
        total = tf.reduce_sum(values * np.arange(1.0, 21.0))
    for got, wanted in zip(gradients, tape.gradient(total, [left, right]), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("form", "jit"),
    [
        *((form, False) for form in FORMS),
        ("tie_aware", True),
        pytest.param("fast", True, marks=pytest.mark.slow),
    ],
)
def test_chunks_and_xla_change_nothing(form, jit):
    generator = np.random.default_rng(4)
    rows = descriptors(generator, 30, 8, "euclidean", np.float32)
    relations = generator.integers(-1, 2, size=[30, 30]) * (1 - np.eye(30, dtype=int))
    wanted = value_and_gradients(rows, rows, relations, form=form)
    for chunk_size in (7,) if jit else (7, 64):
        got = value_and_gradients(rows, rows, relations, jit, form=form, chunk_size=chunk_size)
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)


def test_relations_may_be_a_function_of_rows():
    generator = np.random.default_rng(5)
    rows = descriptors(generator, 10, 4, "euclidean", np.float32)
    matrix = tf.constant(generator.integers(-1, 2, size=[10, 10]), tf.int8)
    wanted = histogram_average_precision(rows, rows, matrix)
    got = histogram_average_precision(
        rows, rows, lambda numbers: tf.gather(matrix, numbers), chunk_size=4
    )
    np.testing.assert_allclose(got, wanted, atol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "case", ["identical", "opposite", "all_positive", "no_positive", "one_row"]
)
def test_gradients_are_finite(case, form, dtype):
    generator = np.random.default_rng(6)
    rows = reference.unit_rows(generator, 8, 4)
    groups = np.repeat(np.arange(4), 2)
    if case == "identical":
        rows[:] = rows[0]
    elif case == "opposite":
        rows[1::2] = -rows[::2]
    elif case == "all_positive":
        groups[:] = 0
    elif case == "no_positive":
        groups = np.arange(8)
    elif case == "one_row":
        rows, groups = rows[:1], groups[:1]
    rows = tf.cast(rows, dtype)
    with tf.GradientTape() as tape:
        tape.watch(rows)
        loss = AveragePrecisionLoss(form=form)(groups, rows)
    gradient = tf.cast(tape.gradient(loss, rows), tf.float32).numpy()
    assert np.isfinite(loss) and np.isfinite(gradient).all()
    if case in ("no_positive", "one_row"):
        assert loss == 0 and not gradient.any()


def test_keras_mean_is_one_minus_mean_average_precision():
    generator = np.random.default_rng(7)
    rows = reference.unit_rows(generator, 11, 6).astype(np.float32)
    groups = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 5])  # 2 and 4 have no second patch
    relations = np.where(groups[:, np.newaxis] == groups, 1, -1) * (1 - np.eye(11, dtype=int))
    precisions = reference.average_precision(rows, rows, relations, "euclidean", 25, "tie_aware")
    wanted = 1 - precisions[(relations == 1).any(axis=1)].mean()
    loss = AveragePrecisionLoss()
    assert abs(float(loss(groups, rows)) - wanted) < 1e-5
    assert abs(float(loss(groups[:, np.newaxis], rows)) - wanted) < 1e-5
    from_matrix = AveragePrecisionLoss(from_relations=True)
    assert abs(float(from_matrix(relations, rows)) - wanted) < 1e-5
    values = loss.call(groups, rows)
    assert values.shape == [11] and values[5] == 0 and values[8] == 0


def graph_tensors(function):
    """All tensors of a traced function and of the functions it calls."""
    graph = function.graph
    yield from (output for op in graph.get_operations() for output in op.outputs)
    for name in graph._functions if hasattr(graph, "_functions") else ():
        inner = graph._get_function(name)
        if inner is not None and hasattr(inner, "graph"):
            yield from graph_tensors(inner)


@pytest.mark.parametrize("chunk_size", [None, 32])
def test_no_tensor_outgrows_the_distance_matrix(chunk_size):
    rows, dimension = 256, 8
    loss = AveragePrecisionLoss(bins=25, chunk_size=chunk_size)

    @tf.function(
        input_signature=[
            tf.TensorSpec([rows], tf.float32),
            tf.TensorSpec([rows, dimension], tf.float32),
        ]
    )
    def step(labels, descriptors):
        with tf.GradientTape() as tape:
            tape.watch(descriptors)
            value = loss(labels, descriptors)
        return tape.gradient(value, descriptors)

    sizes = [
        tensor.shape.num_elements()
        for tensor in graph_tensors(step.get_concrete_function())
        if tensor.shape.is_fully_defined()
    ]
    assert len(sizes) > 200  # the loops' bodies are among them
    # 32 chunked queries of 256 patches; the largest is the histograms [M, b + 1] then.
    assert max(sizes) <= (rows * rows if chunk_size is None else 32 * rows)


def test_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"y_true must have a row for each of the 4"):
        AveragePrecisionLoss()(np.zeros(3), np.zeros([4, 2], np.float32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "slow"}, "form must be one of tie_aware, fast, not 'slow'"),
        ({"bins": 1}, "bins must be an integer of at least 2, not 1"),
        ({"bins": 2.5}, "bins must be an integer of at least 2, not 2.5"),
        ({"distance": "cosine"}, "distance must be one of euclidean, .*, not 'cosine'"),
        ({"chunk_size": 0}, "chunk_size must be a positive integer, not 0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AveragePrecisionLoss(**options)
    rows = np.eye(2, dtype=np.float32)
    with pytest.raises(ValueError, match=message):
        histogram_average_precision(rows, rows, np.eye(2), **options)


def test_bad_shapes_are_refused():
    rows = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match=r"relations must have the shape \(3, 3\), not \(2, 3\)"):
        histogram_average_precision(rows, rows, np.zeros([2, 3]))
    with pytest.raises(ValueError, match=r"y_pred must have the shape \[M, D\]"):
        AveragePrecisionLoss()(np.zeros(3), np.zeros(3, np.float32))
    with pytest.raises(ValueError, match=r"queries and database must have the shapes"):
        histogram_average_precision(rows, np.eye(2, dtype=np.float32), np.zeros([3, 2]))
