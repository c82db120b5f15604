# What the integration tests need, from Debian trixie: Python 3.13, PostgreSQL 17, RabbitMQ 4.
ARG BASE
FROM ${BASE}
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      git libfaketime postgresql-17 procps rabbitmq-server util-linux \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY requirements.txt /requirements.txt
RUN python3 -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --quiet --require-hashes -r /requirements.txt
