"""Training patches and pairs of views, cut from photographs, webcam images and sequences."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
