"""Networks that ship with the package, and loading of any trained one."""
