"""Labels for a delivery: its own, or pseudo labels from clusters of features."""
