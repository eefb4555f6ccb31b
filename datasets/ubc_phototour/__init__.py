"""The TFDS builder of UBC PhotoTour."""
