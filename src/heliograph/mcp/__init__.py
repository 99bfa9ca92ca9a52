"""The interface for agents: tools and resources of a workspace over the Model Context Protocol, by stdio or HTTP."""
