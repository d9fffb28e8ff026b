"""Runs on disk: one folder a config, written so that a kill at any moment harms nothing."""
