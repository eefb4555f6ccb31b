"""Training of descriptor networks: batches, steps, schedules, checkpoints, records."""
