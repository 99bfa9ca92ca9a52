"""The store on PostgreSQL with pgvector: all roles in one database, many workspaces beside each other."""
