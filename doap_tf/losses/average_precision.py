"""Differentiable Average Precision over soft histograms, with its gradient in closed form.

The exact one, in NumPy, is in `doap_tf.metrics.average_precision`.

The distances of a query to its list are binned with a triangular kernel on b + 1 centres. The
cumulative kernel at centre k is clip(k + 1 − t, 0, 1), t being the distance in units of the bin
width, so cumulative histograms take one clipped sum per bin and no [Q, N, b] tensor. It also has
slope −1 exactly for k = ⌊t⌋, so the gradient with respect to a distance is one entry of the
gradient with respect to the cumulative histogram: one gather per pair.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from doap_tf.errors import check_choice
from doap_tf.losses.distances import Distance
from doap_tf.losses.list_loss import ListLoss
from doap_tf.losses.relations import DISTRACTOR, POSITIVE

FORMS = ("tie_aware", "fast")
_DEFAULT_BINS = {"euclidean": 25, "squared": 6}
_CENTRES_AT_ONCE = 26


def histogram_average_precision(
    queries: tf.Tensor,
    database: tf.Tensor,
    relations: tf.Tensor | Callable[[tf.Tensor], tf.Tensor],
    *,
    distance: str = "euclidean",
    bins: int | None = None,
    form: str = "tie_aware",
    chunk_size: int | None = None,
) -> tf.Tensor:
    """Differentiable Average Precision of each query over a list.

    Computed in float32, or in float64 if both sides are float64. Forward and backward take O(Q·N)
    memory, or O(chunk_size·N) with chunks.

    Args:
        queries: Descriptors [Q, D]: rows of unit length for the Euclidean distance and its
            square, values in [−1, 1] for the Hamming distance.
        database: Descriptors of the list [N, D].
        relations: [Q, N] of 1 (positive), 0 (ignored) and −1 (distractor); or a function that
            returns the rows [C, N] of that matrix for int32 query numbers [C], so that the whole
            matrix is never in memory.
        distance: `"euclidean"` over [0, 2], its square, `"squared"`, over [0, 4], or `"hamming"`
            over [0, D].
        bins: Number b of bins; by default 25 for Euclidean distances, 6 for their squares and D
            for Hamming distances.
        form: `"tie_aware"`, or `"fast"`, the form of FastAP.
        chunk_size: How many queries are processed at a time; by default all.

    Returns:
        [Q] in [0, 1]; 0 for queries without positives.
    """
    _check(bins, form, chunk_size)
    queries, database = tf.convert_to_tensor(queries), tf.convert_to_tensor(database)
    dimension = queries.shape[-1]
    if queries.shape.rank != 2 or database.shape.rank != 2 or database.shape[1] != dimension:
        raise ValueError(
            "queries and database must have the shapes [Q, D] and [N, D], not "
            f"{queries.shape} and {database.shape}."
        )
    if chunk_size is not None and queries.shape[0] is not None and chunk_size >= queries.shape[0]:
        chunk_size = None  # one chunk would be padded for nothing
    exact = queries.dtype == database.dtype == tf.float64
    dtype = tf.float64 if exact else tf.float32
    ranking = _Ranking(
        relations if callable(relations) else _rows_of(relations, queries, database),
        Distance(distance, dimension),
        bins or _DEFAULT_BINS.get(distance, dimension),
        form,
        chunk_size,
    )
    return _average_precision(ranking, tf.cast(queries, dtype), tf.cast(database, dtype))


@tf.keras.utils.register_keras_serializable("doap_tf")
class AveragePrecisionLoss(ListLoss):
    """One minus the mean Average Precision of the patches of a batch that have a match in it.

    Args:
        distance: `"euclidean"` or `"squared"` (its square) for unit vectors, `"hamming"` for a
            (relaxed) binary head.
        bins: Number of histogram bins; by default 25, 6 for squared distances, or one per bit.
        form: `"tie_aware"` or `"fast"`.
        chunk_size: How many queries are processed at a time, to save memory; by default all.
        far_apart: Table of label mining, bool [sequences, K, K], see `relations`.
        from_relations: Whether `y_true` is a matrix of relations instead of labels.

    Call arguments:
        y_true: Labels [M] or [M, C] with the columns group, sequence and cluster; or relations
            [M, M].
        y_pred: Descriptors [M, D].

    Example:
        >>> network.compile(optimizer="sgd", loss=AveragePrecisionLoss())
        >>> network.fit(patches, groups, batch_size=256, shuffle=False)

    Reference:
        He, Lu, Sclaroff: Local Descriptors Optimized for Average Precision. CVPR 2018.
        He, Cakir, Bargal, Sclaroff: Hashing as Tie-Aware Learning to Rank. CVPR 2018.
    """

    settings = ("bins", "form")

    def __init__(
        self,
        distance: str = "euclidean",
        bins: int | None = None,
        form: str = "tie_aware",
        chunk_size: int | None = None,
        far_apart: Any = None,
        from_relations: bool = False,
        name: str = "average_precision_loss",
        **kwargs: Any,
    ):
        _check(bins, form, chunk_size)
        super().__init__(distance, far_apart, from_relations, name=name, **kwargs)
        self.bins = bins
        self.form = form
        self.chunk_size = chunk_size

    def query_losses(
        self,
        queries: tf.Tensor,
        database: tf.Tensor,
        relations: Callable[[tf.Tensor], tf.Tensor],
        first: tf.Tensor,
    ) -> tf.Tensor:
        return 1.0 - histogram_average_precision(
            queries,
            database,
            lambda rows: relations(first + rows),
            distance=self.distance,
            bins=self.bins,
            form=self.form,
            chunk_size=self.chunk_size,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "bins": self.bins,
            "form": self.form,
            "chunk_size": self.chunk_size,
        }


def _check(bins: int | None, form: str, chunk_size: int | None) -> None:
    check_choice("form", form, FORMS)
    if bins is not None and not (isinstance(bins, int) and bins >= 2):
        raise ValueError(f"bins must be an integer of at least 2, not {bins!r}.")
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size >= 1):
        raise ValueError(f"chunk_size must be a positive integer, not {chunk_size!r}.")


class _Ranking(NamedTuple):
    """How queries rank a list."""

    relations: Callable[[tf.Tensor], tf.Tensor]
    distance: Distance
    bins: int
    form: str
    chunk_size: int | None


class _Histograms(NamedTuple):
    """Cumulative soft histograms of a chunk of queries, each [C, b + 1]."""

    positives: tf.Tensor
    all: tf.Tensor


def _rows_of(
    relations: tf.Tensor, queries: tf.Tensor, database: tf.Tensor
) -> Callable[[tf.Tensor], tf.Tensor]:
    relations = tf.cast(relations, tf.int8)
    wanted = tf.TensorShape([queries.shape[0], database.shape[0]])
    if relations.shape.rank != 2 or not relations.shape.is_compatible_with(wanted):
        raise ValueError(f"relations must have the shape {wanted}, not {relations.shape}.")
    return lambda rows: tf.gather(relations, rows)


def _average_precision(ranking: _Ranking, queries: tf.Tensor, database: tf.Tensor) -> tf.Tensor:
    @tf.custom_gradient
    def ranked(queries: tf.Tensor, database: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        precisions, *histograms = _forward(ranking, queries, database)

        def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return _backward(ranking, queries, database, _Histograms(*histograms), upstream)

        return precisions, backward

    return ranked(queries, database)


def _forward(
    ranking: _Ranking, queries: tf.Tensor, database: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns AP [Q] and the two cumulative histograms [Q, b + 1], chunk by chunk."""

    def process(rows: tf.Tensor, queries: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        histograms = _histograms(ranking, queries, database, ranking.relations(rows))
        return _precision(histograms, ranking.form), *histograms

    rows = tf.range(tf.shape(queries)[0])
    if ranking.chunk_size is None:
        return process(rows, queries)
    chunks = _chunks(ranking.chunk_size, rows, queries)
    outputs = tf.map_fn(
        lambda chunk: process(*chunk),
        chunks,
        fn_output_signature=(queries.dtype,) * 3,
        parallel_iterations=1,
    )
    return tuple(_unchunk(output, rows) for output in outputs)


def _backward(
    ranking: _Ranking,
    queries: tf.Tensor,
    database: tf.Tensor,
    histograms: _Histograms,
    upstream: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients with respect to queries [Q, D] and database [N, D], chunk by chunk."""

    def process(
        rows: tf.Tensor, queries: tf.Tensor, upstream: tf.Tensor, *histograms: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        slopes = _product_slopes(
            ranking, queries, database, ranking.relations(rows), _Histograms(*histograms), upstream
        )
        return tf.matmul(slopes, database), tf.matmul(slopes, queries, transpose_a=True)

    rows = tf.range(tf.shape(queries)[0])
    inputs = (rows, queries, upstream, *histograms)
    if ranking.chunk_size is None:
        return process(*inputs)
    chunks = _chunks(ranking.chunk_size, *inputs)
    count = tf.shape(chunks[0])[0]

    def step(
        number: tf.Tensor, query_slopes: tf.TensorArray, database_slopes: tf.Tensor
    ) -> tuple[tf.Tensor, tf.TensorArray, tf.Tensor]:
        of_queries, of_database = process(*(chunk[number] for chunk in chunks))
        return number + 1, query_slopes.write(number, of_queries), database_slopes + of_database

    _, query_slopes, database_slopes = tf.while_loop(
        lambda number, *_: number < count,
        step,
        (0, tf.TensorArray(queries.dtype, size=count), tf.zeros_like(database)),
        parallel_iterations=1,
    )
    return _unchunk(query_slopes.stack(), rows), database_slopes


def _chunks(size: int, *tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Cuts tensors along their first axis; the last chunk is padded with zeros."""

    def cut(tensor: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(tensor)
        number = -(-shape[0] // size)
        filled = tf.pad(
            tensor, [[0, number * size - shape[0]], *[[0, 0]] * (tensor.shape.rank - 1)]
        )
        return tf.reshape(filled, tf.concat([[number, size], shape[1:]], axis=0))

    return tuple(cut(tensor) for tensor in tensors)


def _unchunk(chunks: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    joined = tf.reshape(chunks, tf.concat([[-1], tf.shape(chunks)[2:]], axis=0))
    return joined[: tf.shape(rows)[0]]


def _bin_coordinates(ranking: _Ranking, queries: tf.Tensor, database: tf.Tensor) -> tf.Tensor:
    """Distances [C, N] in units of the bin width, in [0, b]."""
    distances = ranking.distance.of(tf.matmul(queries, database, transpose_b=True))
    return distances * (ranking.bins / ranking.distance.largest)


def _histograms(
    ranking: _Ranking, queries: tf.Tensor, database: tf.Tensor, related: tf.Tensor
) -> _Histograms:
    coordinates = _bin_coordinates(ranking, queries, database)
    outside = tf.constant(ranking.bins + 1, coordinates.dtype)  # adds nothing to any bin
    positives = tf.where(related == POSITIVE, coordinates, outside)
    every = tf.where(related != 0, coordinates, outside)

    def cumulative(centres: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        sums: list[tuple[tf.Tensor, tf.Tensor]] = []
        for centre in tf.unstack(centres):
            # One after the other, or all clipped matrices would be in memory together.
            with tf.control_dependencies(sums[-1] if sums else ()):
                sums.append(
                    tuple(
                        tf.reduce_sum(tf.clip_by_value(centre + 1.0 - values, 0.0, 1.0), axis=1)
                        for values in (positives, every)
                    )
                )
        return tuple(tf.stack(total) for total in zip(*sums, strict=True))

    # XLA reads the matrices once for all centres of a body; the larger the body, the longer it
    # compiles.
    count = ranking.bins + 1
    bodies = -(-count // _CENTRES_AT_ONCE)
    size = -(-count // bodies)
    sums = tf.map_fn(
        cumulative,
        tf.reshape(tf.range(bodies * size, dtype=coordinates.dtype), [bodies, size]),
        fn_output_signature=(coordinates.dtype,) * 2,
        parallel_iterations=1,
    )
    shape = [bodies * size, tf.shape(coordinates)[0]]
    return _Histograms(*(tf.transpose(tf.reshape(total, shape)[:count]) for total in sums))


def _steps(cumulative: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits a cumulative histogram into its bins h_k and the values before them, H_{k−1}."""
    before = tf.pad(cumulative[:, :-1], [[0, 0], [1, 0]])
    return cumulative - before, before


def _positive_counts(histograms: _Histograms) -> tf.Tensor:
    return tf.maximum(histograms.positives[:, -1:], 1.0)


def _precision(histograms: _Histograms, form: str) -> tf.Tensor:
    found, found_before = _steps(histograms.positives)
    if form == "tie_aware":
        _, seen_before = _steps(histograms.all)
        ratios = (found_before + histograms.positives + 1.0) / (seen_before + histograms.all + 1.0)
    else:
        ratios = tf.math.divide_no_nan(histograms.positives, histograms.all)
    return tf.reduce_sum(found * ratios / _positive_counts(histograms), axis=1)


def _cumulative_slopes(histograms: _Histograms, form: str) -> _Histograms:
    """Derivatives of AP with respect to the two cumulative histograms, [C, b + 1] each."""
    found, found_before = _steps(histograms.positives)
    if form == "tie_aware":
        _, seen_before = _steps(histograms.all)
        numerators = found_before + histograms.positives + 1.0
        denominators = seen_before + histograms.all + 1.0
        ratios = numerators / denominators
        falls = found * ratios / denominators
        # Each cumulative value enters its own bin and, as "before", the next one.
        of_positives = ratios + found / denominators + _next(found / denominators - ratios)
        of_all = -(falls + _next(falls))
    else:
        ratios = tf.math.divide_no_nan(histograms.positives, histograms.all)
        shares = tf.math.divide_no_nan(found, histograms.all)
        of_positives = ratios + shares - _next(ratios)
        of_all = -shares * ratios
    counts = _positive_counts(histograms)
    return _Histograms(of_positives / counts, of_all / counts)


def _next(values: tf.Tensor) -> tf.Tensor:
    return tf.pad(values[:, 1:], [[0, 0], [0, 1]])


def _product_slopes(
    ranking: _Ranking,
    queries: tf.Tensor,
    database: tf.Tensor,
    related: tf.Tensor,
    histograms: _Histograms,
    upstream: tf.Tensor,
) -> tf.Tensor:
    """Derivatives of the upstream loss with respect to the inner products, [C, N]."""
    coordinates = _bin_coordinates(ranking, queries, database)
    left = tf.clip_by_value(tf.cast(coordinates, tf.int32), 0, ranking.bins - 1)
    slopes = _cumulative_slopes(histograms, ranking.form)
    width = ranking.distance.largest / ranking.bins
    scale = -upstream[:, tf.newaxis] / width
    of_distractors = scale * slopes.all
    of_positives = of_distractors + scale * slopes.positives
    zero = tf.zeros([], coordinates.dtype)
    by_distance = tf.where(
        related == POSITIVE,
        tf.gather(of_positives, left, batch_dims=1),
        tf.where(related == DISTRACTOR, tf.gather(of_distractors, left, batch_dims=1), zero),
    )
    return by_distance * ranking.distance.slope(coordinates * width)
