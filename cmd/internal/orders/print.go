package orders

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// Print writes the table as text. name is the name of the dataset.
func (c *Comparison) Print(w io.Writer, name string) {
	fmt.Fprintf(w, "%s: %s in %s, %s; batches of %d\n\n", name, words.Count(c.Samples, "sample", "samples"),
		words.Count(c.Chunks, "chunk", "chunks"), humanize.IBytes(uint64(c.Bytes)), c.BatchSize)
	c.printOrders(w)
	if c.Costs != nil {
		c.Costs.print(w)
	}
	if c.Work != nil {
		c.Work.print(w)
	}
	if c.Locality != nil {
		fmt.Fprintf(w, "\nshared by locality, shuffle %s:\n\n", c.Locality.Describe())
		c.Locality.print(w)
		if len(c.Locality.Takeovers) > 0 {
			fmt.Fprintf(w, "\nother gateway counts during a job that began with one gateway per home:\n\n")
			c.Locality.printTakeovers(w)
		}
	}
}

func (c *Comparison) printOrders(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	reads := "requests an epoch"
	if len(c.CacheSizes) > 0 {
		reads = "requests of first epoch, cache of " + humanize.IBytes(uint64(slices.Max(c.CacheSizes)))
	}
	fmt.Fprintf(t, "shuffle\twindow\tmemory\tvariance by chunk\tof 10 classes\tof 100\t%s\t", reads)
	for _, size := range c.CacheSizes {
		fmt.Fprintf(t, "later, cache of %s\t", humanize.IBytes(uint64(size)))
	}
	fmt.Fprintln(t)
	for _, r := range c.Orders {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t", r.Shuffle, window(r.Params), humanize.IBytes(r.Memory),
			variance(r.Variance), variance(r.Variance10), variance(r.Variance100), humanize.Comma(int64(r.Reads)))
		for _, reads := range r.LaterReads {
			later := "-"
			if reads != nil {
				later = humanize.Comma(int64(*reads))
			}
			fmt.Fprintf(t, "%s\t", later)
		}
		fmt.Fprintln(t, mark(r.Default, "default"))
	}
	t.Flush()
}

func (l *Locality) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "ranks\thomes\tmoved\ta rank's variance by chunk\tof 10 classes\tof 100\t")
	for _, r := range l.Shares {
		moved := "nothing"
		switch {
		case r.Fault != "":
			fmt.Fprintf(t, "%d\t%d\t-\t-\t-\t-\t%s\n", r.WorldSize, r.Homes, r.Fault)
			continue
		case r.Moved > 0:
			moved = fmt.Sprintf("%.2g %%", 100*r.Moved)
		}
		fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%s\n", r.WorldSize, r.Homes, moved, variance(r.Variance), variance(r.Variance10), variance(r.Variance100))
	}
	t.Flush()
}

func (l *Locality) printTakeovers(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "ranks\thomes\tgateways\tchunks read once more\tbytes\tof the data\t")
	for _, r := range l.Takeovers {
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%s\t%.3g %%\t\n", r.WorldSize, r.Homes, r.Gateways, humanize.Comma(int64(r.Chunks)), humanize.IBytes(uint64(r.Bytes)), 100*r.Share)
	}
	t.Flush()
}

func variance(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

// window returns the window of an order, and its strata.
func window(p shuffle.Params) string {
	if _, window, known := strings.Cut(p.Describe(), " "); known {
		return window
	}
	return "-"
}

func mark(is bool, word string) string {
	if is {
		return word
	}
	return ""
}
