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
	Advice   []string  `json:"advice"`
	Settings []setting `json:"settings"`

	data    *simulate.Data
	results []simulate.Result
}

// New returns the report of the results, of which there must be at least one.
func New(d *simulate.Data, results []simulate.Result) *Report {
	r := &Report{Advice: simulate.Advice(d, results), Settings: make([]setting, len(results)), data: d, results: results}
	for i := range results {
		r.Settings[i] = newSetting(&results[i])
	}
	return r
}

// setting is one row of the report.
type setting struct {
	Gateways  int     `json:"gateways"`
	Cluster   bool    `json:"cluster"`
	Moved     f3      `json:"moved_share"`
	Model     *model  `json:"model,omitempty"`
	CacheSize int64   `json:"cache_size"`
	Policy    string  `json:"cache_policy"`
	DiskSize  int64   `json:"disk_cache_size"`
	Peak      int64   `json:"peak_memory_bytes"`
	Coarse    string  `json:"approximation,omitempty"`
	Epochs    []epoch `json:"epochs"`
}

type epoch struct {
	Seconds float64       `json:"seconds"`
	Bound   string        `json:"bound"`         // name of the bottleneck
	Least   float64       `json:"bound_seconds"` // time of the epoch if only the bottleneck limits it
	Reads   int64         `json:"store_reads"`
	Store   int64         `json:"store_bytes"`
	Disk    int64         `json:"disk_read_bytes"`
	Written int64         `json:"disk_written_bytes"`
	Served  int64         `json:"served_bytes"`
	Ratios  map[string]f3 `json:"tiers"` // shares of the delivered bytes
	Asked   int64         `json:"peer_reads"`
	Peers   int64         `json:"peer_bytes"`
	Link    int64         `json:"busiest_link_bytes"` // in one direction, in or out, whichever is larger
	Half    f3            `json:"stall_p50_seconds"`
	Most    f3            `json:"stall_p99_seconds"`
	Bounds  map[string]f3 `json:"bounds"` // seconds
	Ranks   []rank        `json:"ranks"`
}

// model contains the results of the model by Yang and Cong, in seconds.
type model struct {
	Stored      f3 `json:"store_seconds"`
	Distributed f3 `json:"shared_cache_seconds"`
	Local       f3 `json:"locality_seconds"`
	Knee        f3 `json:"knee_gateways"`
}

type rank struct {
	Stall   f3  `json:"stall_seconds"`
	Longest f3  `json:"longest_stall_seconds"`
	Stalls  int `json:"stalls"`
}

// f3 is a number that is printed with three decimals.
type f3 float64

// MarshalJSON implements json.Marshaler.
func (x f3) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(float64(x)*1000)/1000, 'f', -1, 64), nil
}

func newSetting(r *simulate.Result) setting {
	s := &r.Setting
	row := setting{
		Gateways: s.Gateways, Cluster: clustered(s), Moved: f3(r.Moved), CacheSize: s.CacheSize, Policy: s.Policy, DiskSize: s.DiskSize,
		Peak: r.Peak, Coarse: r.Coarse,
	}
	if clustered(s) {
		f := r.Formula()
		row.Model = &model{f3(f.Stored().Seconds()), f3(f.Distributed().Seconds()), f3(f.Local().Seconds()), f3(f.Knee())}
	}
	for n := range r.Epochs {
		row.Epochs = append(row.Epochs, newEpoch(r, &r.Epochs[n]))
	}
	return row
}

func newEpoch(r *simulate.Result, e *simulate.Epoch) epoch {
	memory, disk, store := e.Tiers()
	bounds := r.Bounds(e)
	b := bounds[0]
	row := epoch{
		Seconds: e.Time.Seconds(), Bound: b.Name, Least: b.Time.Seconds(),
		Reads: e.Reads, Store: e.StoreBytes, Disk: e.DiskBytes, Written: e.DiskWrites, Served: e.Served,
		Ratios: map[string]f3{"memory": f3(memory), "disk": f3(disk), "store": f3(store)},
		Asked:  e.PeerReads, Peers: e.PeerBytes, Link: e.Busiest, Half: f3(e.Half.Seconds()), Most: f3(e.Most.Seconds()), Bounds: map[string]f3{},
	}
	for _, b := range bounds {
		row.Bounds[b.Name] = f3(b.Time.Seconds())
	}
	for _, k := range e.Ranks {
		row.Ranks = append(row.Ranks, rank{f3(k.Stall.Seconds()), f3(k.Longest.Seconds()), k.Stalls})
	}
	return row
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
