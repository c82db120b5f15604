# Stands in for Prometheus's and Alertmanager's images where none can be pulled: Debian trixie's own.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends prometheus prometheus-alertmanager \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN mkdir -p /prometheus && chown nobody /prometheus
USER nobody
