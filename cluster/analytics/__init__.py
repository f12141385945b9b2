"""The rollup of metric records by PySpark (its only import), its windows, and reports over them."""
