"""Labels for a task: the ones granted, or pseudo labels from clusters."""
