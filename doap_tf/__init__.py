"""Local image descriptors optimised for Average Precision (DOAP), in TensorFlow.

`__init__.pyi` says which names a package has and which module each is imported from on first use:
training from a folder of patch groups needs neither OpenCV nor TFDS.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
