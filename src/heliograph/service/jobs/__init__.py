"""Durable background jobs: accepted jobs are completed even if a process dies in between."""
