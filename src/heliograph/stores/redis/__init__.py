"""Redis: the whole store of a workspace, or the graph or the replies of models beside another one."""
