"""The model folder: a model that grows with every delivery of photos, what its clusters are called, and every edit."""
