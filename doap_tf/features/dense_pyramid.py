"""The images that a dense network reads: one and smaller ones, with OpenCV or in a graph."""

LEVELS = 4  # of the pyramid, each half the size of the one before
SMALLEST_SIDE = 64  # of a level, unless the image is smaller
RADIUS = 1.6  # of a keypoint's frame, in pixels of its level
