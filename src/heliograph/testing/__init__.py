"""Public: contract suites for back ends and fakes for models."""
