# Replaces the image postgres:17 with Debian trixie's package, started in the same way.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-17 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/lib/postgresql/*
ENV PATH=/usr/lib/postgresql/17/bin:$PATH PGDATA=/var/lib/postgresql/data
RUN mkdir -p $PGDATA && chown postgres:postgres $PGDATA
USER postgres
COPY deploy/compose/rehearsal/postgres.sh /start.sh
ENTRYPOINT ["sh", "/start.sh"]
