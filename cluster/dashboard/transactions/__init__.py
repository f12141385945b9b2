"""The page's view of transactions: which are open, what becomes of each, and ending them."""
