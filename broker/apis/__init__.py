"""One file per Kafka API: this directory is the list of what is served."""
