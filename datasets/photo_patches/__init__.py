"""Groups of patches cut from photographs."""
