"""Geometry of local features: affine frames, detectors, shape, orientation, cutting patches.

What needs OpenCV is imported on first use: training and export do without.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
