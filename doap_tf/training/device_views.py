"""Pairs of views of one place with points in both, made on the device inside a training step."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from doap_tf.appearance import PRESETS, Appearance
from doap_tf.appearance.random_tensors import RandomTensors, split_seed
from doap_tf.appearance.tensor_effects import blur, change_appearance, standardise
from doap_tf.errors import InputError

_CENTRES = (0.3, 0.7)  # of the views, in sides of the image
SCALES = (0.6, 1.2)  # pixels of the image per pixel of a view, before each view's own scale
_CORNER_BLUR = 1.2
_CORNER_NOISE = 0.7  # standard deviation of the logarithm of a corner's strength
CORNER_WINDOW = 7  # side of the window in which a corner is the strongest
BORDER = 8  # pixels of a view in which there are no points
_FLAT = 1e-6  # strength up to which there is no corner
_NO_CORNER = -99.0


@dataclasses.dataclass(frozen=True)
class ViewSettings:
    """How pairs of views are made.

    Attributes:
        size: S, side of a view in pixels.
        rotation: maximum angle of a view, in degrees; small ones are more frequent.
        log_scale, log_aspect: maximum logarithms of a view's own scale and aspect.
        shear: maximum shear.
        perspective: maximum perspective, over the side of a view.
        shift: maximum distance of the two views' centres along an axis, in pixels of the image.
        webcam_share: share of the pairs that are two images of one webcam, where there are any.
        point_noise: standard deviation of the points' errors, in pixels.
        appearance: effects on both views.
    """

    size: int = 320
    rotation: float = 30.0
    log_scale: float = 0.35
    log_aspect: float = 0.3
    shear: float = 0.25
    perspective: float = 0.35
    shift: float = 40.0
    webcam_share: float = 0.25
    point_noise: float = 0.5
    appearance: Appearance = PRESETS["strong"]

    def __post_init__(self) -> None:
        if self.size < 4 * BORDER:
            raise InputError(f"size of views must be at least {4 * BORDER}, not {self.size}.")
        if not 0 <= self.webcam_share <= 1:
            raise InputError(f"webcam_share must be in [0, 1], not {self.webcam_share}.")


class PointPairs(NamedTuple):
    """Pairs of views and points that both show.

    Attributes:
        view1, view2: float32 [B, S, S], from 0 to 255.
        points1, points2: float32 [B, N, 2], x and y; pixel centres are at integers.
        valid: bool [B, N], False where a pair has fewer than N points.
        homography: float32 [B, 3, 3], of the pixels of the first view to those of the second.
        inside1, inside2: bool [B, S, S], where a view shows the image and not its reflection.
    """

    view1: tf.Tensor
    view2: tf.Tensor
    points1: tf.Tensor
    points2: tf.Tensor
    valid: tf.Tensor
    homography: tf.Tensor
    inside1: tf.Tensor
    inside2: tf.Tensor


def make_pairs(
    photos: tf.Tensor,
    webcams: tf.Tensor | None,
    camera_numbers: tf.Tensor | None,
    seed: tf.Tensor,
    batch: int,
    points: int,
    settings: ViewSettings,
    others: PointPairs | None = None,
) -> PointPairs:
    """Makes pairs of views by random homographies, of photographs first and then of webcams.

    The same seed gives the same pairs, with and without XLA.

    Args:
        photos: uint8 [P, H, W].
        webcams: uint8 [Q, H, W], or None.
        camera_numbers: int [Q], the webcam of each image; images of one show the same place.
        seed: int32 [2].
        batch: B, number of pairs.
        points: N, number of points of a pair.
        settings: of the views.
        others: Pairs of unchanged views that follow these; their appearance is changed as well.
    """
    seeds = split_seed(seed, 3)
    source = RandomTensors(seeds[0], batch)
    first, second = _choose_images(photos, webcams, camera_numbers, source, batch, settings)
    height, width = photos.shape[1:]
    centres = source.uniform(*_CENTRES, 2) * [width, height]
    scales = source.log_uniform(*SCALES)
    to_first = random_homographies(source, centres, scales, settings)
    moved = centres + source.uniform(-settings.shift, settings.shift, 2)
    to_second = random_homographies(source, moved, scales, settings)
    view1, view2 = warp(first, to_first, settings.size), warp(second, to_second, settings.size)
    across = compose(inverse(to_second), to_first)
    inside1, inside2 = (
        _inside(to_image, settings.size, height, width) for to_image in (to_first, to_second)
    )
    visible = inside1 & _in_other_view(across, settings.size)
    points1, valid = pick_corners(view1, visible, source.normal(*view1.shape[1:]), points)
    noise1, noise2 = tf.unstack(settings.point_noise * source.normal(2, points, 2), axis=1)
    pairs = PointPairs(
        view1,
        view2,
        points1 + noise1,
        map_points(points1, across) + noise2,
        valid,
        across,
        inside1,
        inside2,
    )
    if others is not None:
        pairs = tf.nest.map_structure(lambda *both: tf.concat(both, 0), pairs, others)
    return pairs._replace(
        view1=change_appearance(pairs.view1, settings.appearance, seeds[1]),
        view2=change_appearance(pairs.view2, settings.appearance, seeds[2]),
    )


def random_homographies(
    source: RandomTensors, centres: tf.Tensor, scales: tf.Tensor, settings: ViewSettings
) -> tf.Tensor:
    """Draws homographies of the pixels of views to those of images.

    Args:
        source: of random numbers.
        centres: float32 [B, 2], where the centres of the views go.
        scales: float32 [B], pixels of the image per pixel of a view.
        settings: of the views.

    Returns:
        float32 [B, 3, 3].
    """
    angle = math.radians(settings.rotation) * source.uniform(-1, 1) * source.uniform(0, 1)
    scale = scales * tf.exp(source.uniform(-settings.log_scale, settings.log_scale))
    aspect = tf.exp(source.uniform(-settings.log_aspect, settings.log_aspect))
    shear = source.uniform(-settings.shear, settings.shear)
    tilt = source.uniform(-1, 1, 2) * settings.perspective / settings.size
    cosine, sine = tf.cos(angle), tf.sin(angle)
    zero, one = tf.zeros_like(angle), tf.ones_like(angle)
    affine = _matrices(
        *(scale * aspect * cosine, scale * (shear - sine), centres[:, 0]),
        *(scale * sine, scale / aspect * cosine, centres[:, 1]),
        *(zero, zero, one),
    )
    perspective = _matrices(one, zero, zero, zero, one, zero, tilt[:, 0], tilt[:, 1], one)
    middle = one * (settings.size - 1) / 2
    to_origin = _matrices(one, zero, -middle, zero, one, -middle, zero, zero, one)
    return compose(compose(affine, perspective), to_origin)


def warp(images: tf.Tensor, homographies: tf.Tensor, size: int) -> tf.Tensor:
    """Cuts views from images by bilinear interpolation; beyond its border an image is reflected.

    Args:
        images: [B, H, W] of any type.
        homographies: float32 [B, 3, 3], of the pixels of views to those of images.
        size: S, side of a view.

    Returns:
        float32 [B, S, S].
    """
    batch, height, width = images.shape
    x, y = tf.unstack(map_points(_grid(size), homographies), axis=-1)
    x, y = _reflect(x, width), _reflect(y, height)
    left = tf.minimum(tf.floor(x), width - 2)
    top = tf.minimum(tf.floor(y), height - 2)
    corner = tf.cast(top, tf.int32) * width + tf.cast(left, tf.int32)
    pixels = tf.reshape(images, [batch, height * width])

    def at(offset: int) -> tf.Tensor:
        return tf.cast(tf.gather(pixels, corner + offset, batch_dims=1), tf.float32)

    x, y = x - left, y - top
    upper = at(0) + x * (at(1) - at(0))
    lower = at(width) + x * (at(width + 1) - at(width))
    return tf.reshape(upper + y * (lower - upper), [batch, size, size])


def map_points(points: tf.Tensor, homographies: tf.Tensor) -> tf.Tensor:
    """Maps points [B or 1, N, 2] by homographies [B, 3, 3], to float32 [B, N, 2]."""
    mapped = map_homogeneous(points, homographies)
    return mapped[..., :2] / mapped[..., 2:]


def map_homogeneous(points: tf.Tensor, homographies: tf.Tensor) -> tf.Tensor:
    """Maps points as `map_points` does, to homogeneous coordinates, float32 [B, N, 3]."""
    linear, offset = homographies[:, tf.newaxis, :, :2], homographies[:, tf.newaxis, :, 2]
    return tf.reduce_sum(linear * points[:, :, tf.newaxis], -1) + offset


def pick_corners(
    views: tf.Tensor, allowed: tf.Tensor, noise: tf.Tensor, count: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Picks the strongest corners of views, with some chance.

    The strength of a corner is the smaller eigenvalue of the structure tensor.

    Args:
        views: float32 [B, S, S].
        allowed: bool [B, S, S], where corners may be.
        noise: float32 [B, S, S] of standard deviation 1.
        count: N.

    Returns:
        Points float32 [B, N, 2], and whether they are corners, bool [B, N]: where a view has fewer
        than N, other points follow.
    """
    size = views.shape[1]
    smooth = blur(standardise(views), tf.fill([views.shape[0]], _CORNER_BLUR))
    across = smooth[:, 1:-1, 2:] - smooth[:, 1:-1, :-2]
    down = smooth[:, 2:, 1:-1] - smooth[:, :-2, 1:-1]
    products = tf.stack([across * across, down * down, across * down], -1)
    # Padded here, because XLA takes minutes to count the pixels of "SAME" windows as it compiles.
    products = tf.pad(products, [[0, 0], [2, 2], [2, 2], [0, 0]])
    xx, yy, xy = tf.unstack(tf.nn.avg_pool2d(products, 5, 1, "VALID"), axis=-1)
    smaller = (xx + yy) / 2 - tf.sqrt(((xx - yy) / 2) ** 2 + xy**2)
    smaller = tf.pad(smaller, [[0, 0], [1, 1], [1, 1]])
    strength = tf.math.log(tf.maximum(smaller, _FLAT)) + _CORNER_NOISE * noise
    highest = tf.nn.max_pool2d(strength[..., tf.newaxis], CORNER_WINDOW, 1, "SAME")[..., 0]
    inner = np.pad(np.ones([size - 2 * BORDER] * 2, bool), BORDER)
    corner = (strength > highest - 1e-4) & (smaller > _FLAT) & allowed & inner
    chosen = tf.where(corner, strength, _NO_CORNER)
    strongest, index = tf.math.top_k(tf.reshape(chosen, [-1, size * size]), count)
    corners = tf.cast(tf.stack([index % size, index // size], -1), tf.float32)
    return corners, strongest > _NO_CORNER


def uniform_index(chance: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """Returns numbers below `count`, int32, of chances in [0, 1)."""
    return tf.minimum(tf.cast(chance * tf.cast(count, tf.float32), tf.int32), count - 1)


def compose(one: tf.Tensor, two: tf.Tensor) -> tf.Tensor:
    """Returns the products of matrices [B, 3, 3], which a GPU does not round to TF32."""
    return tf.reduce_sum(one[:, :, :, tf.newaxis] * two[:, tf.newaxis], 2)


def inverse(homographies: tf.Tensor) -> tf.Tensor:
    """Returns the inverses of homographies [B, 3, 3], times their determinants."""
    a, b, c, d, e, f, g, h, i = tf.unstack(tf.reshape(homographies, [-1, 9]), axis=1)
    return _matrices(
        *(e * i - f * h, c * h - b * i, b * f - c * e),
        *(f * g - d * i, a * i - c * g, c * d - a * f),
        *(d * h - e * g, b * g - a * h, a * e - b * d),
    )


def _choose_images(
    photos: tf.Tensor,
    webcams: tf.Tensor | None,
    camera_numbers: tf.Tensor | None,
    source: RandomTensors,
    batch: int,
    settings: ViewSettings,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws the images [B, H, W] of the first and of the second views."""
    of_webcams = int(batch * settings.webcam_share) if webcams is not None else 0
    chance = source.uniform(0, 1)
    of_photos = batch - of_webcams
    first = second = tf.gather(photos, uniform_index(chance[:of_photos], photos.shape[0]))
    if webcams is not None and of_webcams:
        count = webcams.shape[0]
        chosen = uniform_index(chance[of_photos:], count)
        same = tf.gather(camera_numbers, chosen)[:, tf.newaxis] == camera_numbers
        draws = tf.where(same, source.uniform(0, 1, count)[of_photos:], -1.0)
        partner = tf.argmax(draws, 1, tf.int32)
        first = tf.concat([first, tf.gather(webcams, chosen)], 0)
        second = tf.concat([second, tf.gather(webcams, partner)], 0)
    return first, second


def _inside(to_image: tf.Tensor, size: int, height: int, width: int) -> tf.Tensor:
    """Returns which pixels of views show the image, bool [B, S, S]."""
    place = map_points(_grid(size), to_image)
    inside = tf.reduce_all((place > 0) & (place < [width - 1.0, height - 1.0]), -1)
    return tf.reshape(inside, [-1, size, size])


def _in_other_view(across: tf.Tensor, size: int) -> tf.Tensor:
    """Returns which pixels of first views are in the second, not at its border, bool [B, S, S]."""
    mapped = map_homogeneous(_grid(size), across)
    other = mapped[..., :2] / mapped[..., 2:]
    inside = tf.reduce_all((other > BORDER) & (other < size - 1.0 - BORDER), -1)
    return tf.reshape(inside & (mapped[..., 2] > 0), [-1, size, size])


def _grid(size: int) -> tf.Tensor:
    """Returns the pixels of a view, float32 [1, S², 2]."""
    y, x = np.mgrid[:size, :size].astype(np.float32)
    return tf.constant(np.stack([x, y], -1).reshape(1, -1, 2))


def _reflect(positions: tf.Tensor, count: int) -> tf.Tensor:
    """Reflects positions at the outer edges of `count` pixels, into [0, count − 1]."""
    period = tf.math.floormod(positions + 0.5, 2.0 * count)
    return tf.clip_by_value(tf.minimum(period, 2.0 * count - period) - 0.5, 0, count - 1)


def _matrices(*entries: tf.Tensor) -> tf.Tensor:
    """Stacks nine entries [B] to matrices [B, 3, 3]."""
    return tf.reshape(tf.stack(entries, -1), [-1, 3, 3])
