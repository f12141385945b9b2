"""Reports over windows: usage and lag over time, tables, plots, a page, limits that would fit."""
