# Stands in for postgres:17 where no image can be pulled: Debian trixie's own, started as that image is.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-17 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/lib/postgresql/*
ENV PATH=/usr/lib/postgresql/17/bin:$PATH PGDATA=/var/lib/postgresql/data
RUN mkdir -p $PGDATA && chown postgres:postgres $PGDATA
USER postgres
COPY deploy/compose/rehearsal/postgres.sh /start.sh
ENTRYPOINT ["sh", "/start.sh"]
