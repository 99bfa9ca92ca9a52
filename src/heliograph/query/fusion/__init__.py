"""One ranking of chunks from several channels: vector, keyword, entities named, bridges and the graph around them."""
