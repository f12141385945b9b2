"""Leaders and followers of partitions: high watermark, ISR, epochs, and the ZeroMQ fetches."""
