"""How keypoints are found in a network's scores, with OpenCV or in a graph."""

STEP = 2**0.5  # between the levels of the pyramid
SMALLEST_SIDE = 32  # of a level, unless the image is smaller
SMOOTHING = 1.3  # σ by which scores are smoothed, because those of a block's pixels vary
RADIUS = 2  # of non-maximum suppression, in pixels of the level
BORDER = 4  # pixels of each level where nothing is searched
TEXTURE = 11  # side of the square around a keypoint that must not be of one grey value
THRESHOLD = 0.0  # least score of a keypoint
