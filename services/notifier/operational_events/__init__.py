"""Events about deliveries and subscriptions."""
