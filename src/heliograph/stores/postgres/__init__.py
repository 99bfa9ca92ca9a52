"""The store on PostgreSQL with pgvector: all roles in one database, which holds many workspaces."""
