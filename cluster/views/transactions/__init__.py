"""What transactions are and what ends them: texts of `transactions` that the page shows too."""
