"""The features of images that are used more than once, within a limit of memory."""

import collections
import time
from collections.abc import Callable, Hashable

import numpy as np

from doap_tf.matching import Extractor, Features


class FeatureCache:
    """Extracts the features of each image once, as long as they fit into memory.

    Args:
        extractor: What detects and describes.
        memory_mb: Limit of what is kept; the image used least recently is dropped first.

    Attributes:
        seconds: What each extraction took, by the wall clock.
        cpu_seconds: The same in processor time, which other programs do not lengthen.
    """

    def __init__(self, extractor: Extractor, memory_mb: float = 1024):
        self._extractor = extractor
        self._limit = memory_mb * 2**20
        self._kept: collections.OrderedDict[Hashable, Features] = collections.OrderedDict()
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []

    def features(self, key: Hashable, read: Callable[[], np.ndarray]) -> Features:
        """Returns the features of an image that `read` returns if it is called."""
        if key not in self._kept:
            image = read()
            start, cpu_start = time.perf_counter(), time.process_time()
            self._kept[key] = self._extractor.extract(image)
            self.seconds.append(time.perf_counter() - start)
            self.cpu_seconds.append(time.process_time() - cpu_start)
        self._kept.move_to_end(key)
        while len(self._kept) > 2 and sum(map(_size, self._kept.values())) > self._limit:
            self._kept.popitem(last=False)
        return self._kept[key]


def _size(features: Features) -> int:
    arrays = (features.frames, features.responses, features.descriptors)
    return sum(array.nbytes for array in arrays)
