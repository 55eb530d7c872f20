package platforms

import (
	"os"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// What a daemon sends is read by OpenTelemetry's own definition of the protocol, which refuses names that it does not know.
func TestMetricsAreWhatTheProtocolDefines(t *testing.T) {
	text, err := os.ReadFile("../../crates/forkful-core/src/otlp/example.json")
	if err != nil {
		t.Fatal(err)
	}
	var sent metrics.MetricsData
	if err := protojson.Unmarshal(text, &sent); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, resource := range sent.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, metric := range scope.Metrics {
				switch data := metric.Data.(type) {
				case *metrics.Metric_Gauge:
					kinds["gauge"] += len(data.Gauge.DataPoints)
				case *metrics.Metric_Sum:
					kinds["sum"] += len(data.Sum.DataPoints)
					if data.Sum.AggregationTemporality != metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
						t.Errorf("%s is not cumulative", metric.Name)
					}
				case *metrics.Metric_Histogram:
					for _, point := range data.Histogram.DataPoints {
						kinds["histogram"]++
						var count uint64
						for _, bucket := range point.BucketCounts {
							count += bucket
						}
						if count != point.Count || len(point.BucketCounts) != len(point.ExplicitBounds)+1 {
							t.Errorf("%s: %d buckets of %d bounds count %d of %d", metric.Name, len(point.BucketCounts), len(point.ExplicitBounds), count, point.Count)
						}
					}
				default:
					t.Errorf("%s has no data", metric.Name)
				}
			}
		}
	}
	if kinds["gauge"] == 0 || kinds["sum"] == 0 || kinds["histogram"] == 0 {
		t.Errorf("there are %v", kinds)
	}
}

func TestAnUnknownNameIsRefused(t *testing.T) {
	for _, bad := range []string{`{"resourceMetric":[]}`, `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","gauge":{"points":[]}}]}]}]}`} {
		if err := protojson.Unmarshal([]byte(bad), &metrics.MetricsData{}); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
