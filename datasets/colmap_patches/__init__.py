"""Groups of patches cut from reconstructions."""
