"""An even spread of partitions over brokers: plans, and what carries them out."""
