"""What every descriptor offers, and which patches it takes."""

from typing import Protocol

import numpy as np

from doap_tf.errors import InputError

_SMALLEST_PATCH = 16
_LARGEST_VALUE = 1e15  # networks square and sum values in float32


class PatchDescriptor(Protocol):
    """Describes patches: `doap_tf.Descriptor`, a handcrafted descriptor, or one of your own.

    Optional attributes: `magnification`, half the side of a patch over the radius of its keypoint
    that suits the descriptor; `input_size`, the side of the patches to cut for it (64 without);
    `weights_sha256`, which identifies it in results; a method `settings()` that returns its
    parameters, without which, or a hash, its descriptors are not stored.
    """

    @property
    def norm(self) -> int:
        """`cv2.NORM_L2` or `cv2.NORM_HAMMING`."""

    @property
    def dimension(self) -> int:
        """Number of values, or of bits."""

    def describe(self, patches: np.ndarray, batch_size: int = 1024) -> np.ndarray:
        """Describes patches.

        Args:
            patches: uint8 [N, H, H], or a single one, [H, H].
            batch_size: Number of patches processed at a time, where that matters.

        Returns:
            float32 [N, D], or packed bits uint8 [N, bits / 8].
        """


class FrameDescriptor(Protocol):
    """Describes frames of an image: by the patches cut at them, or as OpenCV's own SIFT does."""

    norm: int
    dimension: int

    def describe_frames(self, image: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Describes frames [N, 2, 3] of a grey image, uint8 [H, W].

        Returns:
            float32 [N, D], or packed bits uint8 [N, bits / 8].
        """


def checked_patches(patches: np.ndarray) -> np.ndarray:
    """Returns patches as [N, H, H, 1]; raises an InputError if they cannot be described."""
    patches = np.asarray(patches)
    if patches.ndim == 2:
        patches = patches[np.newaxis]
    if patches.ndim == 3:
        patches = patches[..., np.newaxis]
    shape = patches.shape
    if len(shape) != 4 or shape[3] != 1:
        raise InputError(
            f"patches must have the shape [H, H], [N, H, H] or [N, H, H, 1], not {list(shape)}."
        )
    if shape[1] != shape[2] or shape[1] < _SMALLEST_PATCH:
        raise InputError(
            f"patches must be square and at least {_SMALLEST_PATCH} pixels wide, "
            f"not {shape[1]} high and {shape[2]} wide."
        )
    if patches.dtype.kind not in "uif":
        raise InputError(f"patches must be uint8 or float, not {patches.dtype}.")
    if patches.dtype.kind == "f":
        extremes = np.array([patches.min(axis=(1, 2, 3)), patches.max(axis=(1, 2, 3))], np.float64)
        valid = (np.abs(extremes) <= _LARGEST_VALUE).all(axis=0)
        if not valid.all():  # NaN never is
            raise InputError(
                f"patches must be finite and within ±{_LARGEST_VALUE:g}; patch "
                f"{int(np.argmin(valid))} holds NaN, infinity or more."
            )
    return patches
