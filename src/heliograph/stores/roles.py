"""Which roles of a workspace the settings have served beside the store with the truth, and where."""

from __future__ import annotations

from heliograph.settings import StoreSettings


def projection_urls(settings: StoreSettings) -> dict[str, str]:
    """Return where the roles are served that the store with the truth does not serve itself."""
    urls = {
        "graph": settings.graph_url,
        "vectors": settings.vectors_url,
        "text": settings.text_url,
        "cache": settings.cache_url,
    }
    return {role: url for role, url in urls.items() if url}
