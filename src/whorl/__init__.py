"""whorl keeps learning new image classes from data nobody has labelled."""

__version__ = "0.1.0"
