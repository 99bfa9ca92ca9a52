"""The version, read by the build and by `heliograph doctor`."""

__version__ = "0.1.0"
