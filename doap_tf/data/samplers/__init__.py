"""Which patches make up a training batch: seeded, with a position that can be saved."""
