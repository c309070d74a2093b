"""More rows than fit into memory: batches, streams, clusters. All of it is adding up counts."""
