"""The images that a dense network reads, with OpenCV or in a graph.

The first is the given one, enlarged if it is small: positions are then more accurate. The others
are each half the size of the one before. A keypoint is described by the maps of the level that
found it and of the next smaller one, as descriptors of patches are pooled over their sizes.
"""

LEVELS = 4
ENLARGED = 1_500_000  # pixels to which smaller images are enlarged
LARGEST_FACTOR = 2**0.5  # by which a side is enlarged
SMALLEST_SIDE = 64  # of a level, unless the image is smaller
SMALLER_LEVEL = 0.5  # weight of its maps, where those of the level itself have 1
RADIUS = 1.6  # of a keypoint's frame, in pixels of its level
