"""The TFDS builder of RomePatches."""
