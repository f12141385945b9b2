"""The dashboard: a page, its API and Prometheus' endpoint, in a process of the supervisor."""
