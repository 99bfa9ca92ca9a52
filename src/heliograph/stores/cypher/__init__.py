"""The graph in a property graph database that speaks Cypher: what is the same in all of them."""
