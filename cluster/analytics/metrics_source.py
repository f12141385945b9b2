"""Metric records as a data source of Spark, to be registered with one line: docs/history.md.

    from cluster.analytics.metrics_source import MetricsSource

    spark.dataSource.register(MetricsSource)
    spark.read.format("milena-metrics").option("kafka.bootstrap.servers", "localhost:9092").load()

Source: pyspark.sql.datasource (Spark 4.2).
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from cluster.analytics.source.options import columns_wanted, parsed_options
from cluster.analytics.source.rows import Wanted, columns
from cluster.analytics.windows.spark_types import ddl

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from cluster.analytics.source.readers import MetricsReader, MetricsStreamReader


class MetricsSource(DataSource):
    """A row for each metric record of a topic, with the columns of its kind or of all kinds.

    Methods raise UserError for invalid options.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return "milena-metrics"

    def schema(self) -> str:
        """The columns as SQL declares them."""
        return ddl(columns(Wanted(*columns_wanted(self.options))))

    def reader(self, schema: "StructType") -> "MetricsReader":  # noqa: ARG002  # named by Spark
        """Called in a planner process."""
        from cluster.analytics.source.readers import MetricsReader

        return MetricsReader(parsed_options(self.options, is_stream=False))

    def streamReader(self, schema: "StructType") -> "MetricsStreamReader":  # noqa: ARG002
        """Called in a planner process."""
        from cluster.analytics.source.readers import MetricsStreamReader

        return MetricsStreamReader(parsed_options(self.options, is_stream=True))
