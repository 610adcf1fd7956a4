"""Fair: whose turn it is. Queues, buckets and turns, free of what waits in them."""
