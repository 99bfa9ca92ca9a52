"""Durable work in the background: accepted jobs are completed even if a process dies in between."""
