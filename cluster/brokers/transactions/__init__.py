"""The transaction coordinator of a broker, and the parts of transactions on leaders."""
