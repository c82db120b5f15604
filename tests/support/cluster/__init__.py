"""A cluster on one machine, each machine a network namespace; and what Kubernetes, KEDA and Helm do, without them."""
