"""Redis: the graph, or the replies of models, beside the store that holds the truth."""
