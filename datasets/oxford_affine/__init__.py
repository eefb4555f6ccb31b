"""The TFDS builder of image sequences with homographies."""
