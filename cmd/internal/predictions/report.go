// Package predictions prints the results of simulate, as JSON and as a table for people.
package predictions

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace-data/millrace/datapath/simulate"
	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// Report contains the results of the simulated settings.
type Report struct {
	Advice   []string         `json:"advice"`
	Settings []map[string]any `json:"settings"`

	data    *simulate.Data
	results []simulate.Result
}

// New returns the report of the results, of which there must be at least one.
func New(d *simulate.Data, results []simulate.Result) *Report {
	r := &Report{Advice: simulate.Advice(d, results), data: d, results: results}
	for i := range results {
		r.Settings = append(r.Settings, setting(&results[i]))
	}
	return r
}

// f3 is a number that is printed with three decimals.
type f3 float64

// MarshalJSON implements json.Marshaler.
func (x f3) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(float64(x)*1000)/1000, 'f', -1, 64), nil
}

func setting(r *simulate.Result) map[string]any {
	s := &r.Setting
	var epochs []map[string]any
	for n := range r.Epochs {
		epochs = append(epochs, epoch(r, &r.Epochs[n]))
	}
	row := map[string]any{
		"gateways": s.Gateways, "cluster": clustered(s), "moved_share": f3(r.Moved), "cache_size": s.CacheSize, "cache_policy": s.Policy,
		"disk_cache_size": s.DiskSize, "peak_memory_bytes": r.Peak, "epochs": epochs,
	}
	if r.Coarse != "" {
		row["approximation"] = r.Coarse
	}
	return row
}

// epoch returns the counts and times of an epoch. bound is the bottleneck, and bound_seconds the time
// of the epoch if only the bottleneck limits it.
func epoch(r *simulate.Result, e *simulate.Epoch) map[string]any {
	memory, disk, store := e.Tiers()
	bounds := map[string]f3{}
	for _, b := range r.Bounds(e) {
		bounds[b.Name] = f3(b.Time.Seconds())
	}
	var ranks []map[string]any
	for _, k := range e.Ranks {
		ranks = append(ranks, map[string]any{"stall_seconds": f3(k.Stall.Seconds()), "longest_stall_seconds": f3(k.Longest.Seconds()), "stalls": k.Stalls})
	}
	b := r.Bounds(e)[0]
	return map[string]any{
		"seconds": e.Time.Seconds(), "bound": b.Name, "bound_seconds": b.Time.Seconds(), "bounds": bounds, "ranks": ranks,
		"store_reads": e.Reads, "store_bytes": e.StoreBytes, "disk_read_bytes": e.DiskBytes, "disk_written_bytes": e.DiskWrites,
		"served_bytes": e.Served, "tiers": map[string]f3{"memory": f3(memory), "disk": f3(disk), "store": f3(store)}, // shares of the delivered bytes
		"peer_reads": e.PeerReads, "peer_bytes": e.PeerBytes, "busiest_link_bytes": e.Busiest,
		"stall_p50_seconds": f3(e.Half.Seconds()), "stall_p99_seconds": f3(e.Most.Seconds()),
	}
}

// Print writes the report as text.
func (r *Report) Print(w io.Writer) {
	d, results := r.data, r.results
	s := &results[0].Setting
	order := s.Order.Shuffle
	if shuffle.UsesWindow(order) {
		order += " " + strconv.FormatUint(s.Order.Window, 10)
	}
	sharing := ""
	if s.Sharing == shuffle.Locality {
		sharing = fmt.Sprintf(", shared by locality, which moves %.1f %%", 100*results[0].Moved)
	}
	fmt.Fprintf(w, "%s in %s, %s; %s order, batches of %d, %s at %.6g samples/s together%s\n", words.Count(d.Samples(), "sample", "samples"),
		words.Count(len(d.Chunks), "chunk", "chunks"), simulate.Bytes(d.Bytes()), order, s.BatchSize, words.Count(s.Ranks, "rank", "ranks"), s.Rate, sharing)
	said := map[string]bool{"": true}
	fleet := false
	for i := range results {
		if c := results[i].Coarse; !said[c] {
			said[c] = true
			fmt.Fprintf(w, "approximation: %s\n", c)
		}
		fleet = fleet || clustered(&results[i].Setting)
	}
	fmt.Fprintf(w, "\n")
	printRows(w, results, fleet)
	fmt.Fprintf(w, "\n%s\n", strings.Join(r.Advice, "\n"))
}

// printRows prints the table. For a fleet, it includes the traffic between gateways.
func printRows(w io.Writer, results []simulate.Result, fleet bool) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	peers := ""
	if fleet {
		peers = "peers\tbusiest link\tp50, p99 stall\t"
	}
	fmt.Fprintf(t, "gateways\tcache\tpolicy\tdisk\tepoch 0\tepoch %d\twaiting\treads\tstore\tmemory : disk : store\t%speak\tlimit\t\n", results[0].Setting.Epochs-1, peers)
	for i := range results {
		r := &results[i]
		e := r.Later()
		memory, disk, store := e.Tiers()
		if fleet {
			peers = fmt.Sprintf("%s\t%s\t%s, %s\t", simulate.Bytes(e.PeerBytes), simulate.Bytes(e.Busiest), simulate.Span(e.Half.Round(time.Microsecond)), simulate.Span(e.Most.Round(time.Microsecond)))
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%.1f %%\t%d\t%s\t%.0f : %.0f : %.0f %%\t%s%s\t%s\t\n",
			r.Setting.Gateways, words.Size(r.Setting.CacheSize), r.Setting.Policy, orNone(r.Setting.DiskSize),
			simulate.Span(r.Epochs[0].Time), simulate.Span(e.Time), 100*e.Waiting(), e.Reads, simulate.Bytes(e.StoreBytes),
			100*memory, 100*disk, 100*store, peers, simulate.Bytes(r.Peak), r.Bounds(e)[0].Name)
	}
	t.Flush()
}

func clustered(s *simulate.Setting) bool { return s.Gateways > 1 && !s.Alone }

func orNone(size int64) string {
	if size == 0 {
		return "-"
	}
	return words.Size(size)
}
