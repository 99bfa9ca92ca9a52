"""What a filter leaves of a workspace, for stores whose views hold it in memory: ids, ends, degrees, weights, folds."""
