"""Neo4j: the graph, beside the store that holds the truth."""
