"""The commands: flags in, messages and files out; the work is done by the library."""
