# Replaces the images of Prometheus and Alertmanager with Debian trixie's packages.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends prometheus prometheus-alertmanager \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN mkdir -p /prometheus && chown nobody /prometheus
USER nobody
