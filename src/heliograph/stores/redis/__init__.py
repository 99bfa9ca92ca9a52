"""Redis beside the home store: the graph with an index of documents, or replies of models."""
