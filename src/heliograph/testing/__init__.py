"""Public: contract test suites for back ends, and fakes for models."""
