"""From the words of a question to the entities that they name, and the paths between these."""
