"""What is read of a cluster without asking its brokers: for tools and the dashboard."""
