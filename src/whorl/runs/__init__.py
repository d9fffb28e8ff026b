"""Runs on disk: one folder per config, written so that a process can be killed at any moment."""
