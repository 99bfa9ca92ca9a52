"""Moving a workspace from one store to another, whole: nothing is computed by models, and everything is compared."""
