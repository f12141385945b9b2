"""The rollup of metric records by PySpark (its only import), and reports over what it wrote."""
