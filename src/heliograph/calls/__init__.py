"""Limiting, retrying and concurrently running calls to models, and translating their errors into ours."""
