# Replaces the image rabbitmq:4-management with Debian trixie's package, started in the same way.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends rabbitmq-server && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN rabbitmq-plugins enable --offline rabbitmq_management rabbitmq_prometheus
COPY deploy/compose/rehearsal/rabbitmq.sh /start.sh
USER rabbitmq
ENV HOME=/var/lib/rabbitmq
ENTRYPOINT ["sh", "/start.sh"]
