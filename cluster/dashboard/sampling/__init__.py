"""The dashboard's own history: samples of the brokers' stats files, and events."""
