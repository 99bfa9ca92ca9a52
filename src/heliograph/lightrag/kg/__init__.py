"""Names that programs import from LightRAG's `kg`; its stores are ours, see `heliograph.stores`."""
