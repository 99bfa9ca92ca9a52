"""Monitoring of a service process: metrics and spans are collected here, and exposed by HTTP and MCP."""
