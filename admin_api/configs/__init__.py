"""Configurations of topics, of brokers and of the cluster."""
