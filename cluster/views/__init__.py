"""Facts about a cluster that are read without asking its brokers, for tools and the dashboard."""
