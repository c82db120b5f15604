# Configures the first user from the environment, and starts the broker.
set -eu
cat > /tmp/rabbitmq.conf <<CONF
default_user = $RABBITMQ_DEFAULT_USER
default_pass = $RABBITMQ_DEFAULT_PASS
loopback_users = none
CONF
export RABBITMQ_CONFIG_FILE=/tmp/rabbitmq.conf
exec /usr/lib/rabbitmq/bin/rabbitmq-server
