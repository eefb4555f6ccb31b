"""The HPatches benchmark, on its own patches or on patches cut from other images."""
