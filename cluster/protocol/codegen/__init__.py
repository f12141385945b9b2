"""Writes `protocol/messages/` and `model/error_codes.py` from Kafka's definitions.

For maintainers: it reads them from kio, which is not installed with the product, nor is this
package. `python -m cluster.protocol.codegen` writes everything; to add an API, add its row to
`apis.py` first.
"""
