# One image for the service, the command line and the MCP server.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN python -m venv /opt/heliograph \
 && /opt/heliograph/bin/pip install --no-cache-dir --constraint constraints.txt '.[all]' \
 # The graph of the offline embedding is built here once, so that a container with a read-only root can start.
 && HELIOGRAPH_EMBEDDING__CACHE_DIR=/opt/heliograph/cache /opt/heliograph/bin/heliograph --data-dir /tmp/warm demo >/dev/null \
 && rm -rf /tmp/warm

FROM python:3.13-slim
RUN useradd --create-home --uid 10001 heliograph \
 && install --directory --owner heliograph --group heliograph /data
COPY --from=build --chown=heliograph:heliograph /opt/heliograph /opt/heliograph
ENV PATH=/opt/heliograph/bin:$PATH \
    HELIOGRAPH_STORE__DATA_DIR=/data \
    HELIOGRAPH_EMBEDDING__CACHE_DIR=/opt/heliograph/cache \
    HELIOGRAPH_SERVER__HOST=0.0.0.0
USER heliograph
WORKDIR /data
VOLUME /data
EXPOSE 9621
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9621/health', timeout=4)"]
# Listening beyond loopback needs credentials: set HELIOGRAPH_SERVER__API_KEY, or accounts, or pass --insecure.
ENTRYPOINT ["heliograph"]
CMD ["serve"]
