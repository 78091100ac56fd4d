package orders

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/datapath/simulate"
	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// Price is the price of one unit of a resource, in any currency.
type Price struct {
	Resource string  `json:"resource"`
	Unit     string  `json:"unit"`
	Price    float64 `json:"price"`
}

// resource is a resource of an epoch, and the number of units that it uses.
type resource struct {
	name, unit string
	used       func(*simulate.Setting, *simulate.Epoch) float64
}

var resources = []resource{
	{"requests", "million store reads", func(_ *simulate.Setting, e *simulate.Epoch) float64 { return float64(e.Reads) / 1e6 }},
	{"egress", "GB (10^9 bytes) from the store", func(_ *simulate.Setting, e *simulate.Epoch) float64 { return float64(e.StoreBytes) / 1e9 }},
	{"gateway", "hour of a gateway", func(s *simulate.Setting, e *simulate.Epoch) float64 { return float64(s.Gateways) * e.Time.Hours() }},
	{"accelerator", "hour that a rank waits", func(s *simulate.Setting, e *simulate.Epoch) float64 {
		mean, _ := e.Stall()
		return float64(s.Ranks) * mean.Hours()
	}},
}

// PriceKind is the kind of flags for prices: RESOURCE=PRICE.
func PriceKind() cli.Kind[Price] {
	names := []string{}
	for _, r := range resources {
		names = append(names, r.name)
	}
	parse := func(text string) (Price, error) {
		name, amount, ok := strings.Cut(text, "=")
		i := slices.Index(names, name)
		x, err := strconv.ParseFloat(amount, 64)
		switch {
		case !ok:
			return Price{}, errors.New("must be RESOURCE=PRICE, such as egress=0.09")
		case i < 0:
			return Price{}, fmt.Errorf("unknown resource %q: must be one of %s", name, strings.Join(names, ", "))
		case err != nil || !(x >= 0 && x <= 1e9):
			return Price{}, fmt.Errorf("the price of a %s must be a number from 0 to 1e9", resources[i].unit)
		}
		return Price{name, resources[i].unit, x}, nil
	}
	return cli.Kind[Price]{Name: "PRICES", Parse: parse, Format: func(p Price) string { return p.Resource + "=" + strconv.FormatFloat(p.Price, 'g', -1, 64) }}
}

// Costs are the costs of an epoch for a price list, the cheapest later epoch first.
type Costs struct {
	Prices []Price `json:"prices"`
	Rows   []cost  `json:"rows"`

	job string
}

// cost is one order, cache and number of gateways.
type cost struct {
	shuffle.Params
	Gateways int       `json:"gateways"`
	Cache    int64     `json:"cache_size"`
	Disk     int64     `json:"disk_cache_size"`
	First    epochCost `json:"first_epoch"` // with empty caches
	Later    epochCost `json:"later_epoch"`
	Small    bool      `json:"cache_too_small"` // the order reads chunks more than once an epoch
}

type epochCost struct {
	Seconds float64            `json:"seconds"`
	Used    map[string]float64 `json:"used"` // units of each resource
	Costs   map[string]float64 `json:"costs"`
	Cost    float64            `json:"cost"` // sum of Costs
}

// NewCosts returns the costs of simulated epochs, of which there must be at least one.
func NewCosts(d *simulate.Data, prices []Price, results []simulate.Result) *Costs {
	s := &results[0].Setting
	c := &Costs{Prices: prices, job: fmt.Sprintf("%s at %.6g samples/s", words.Count(s.Ranks, "rank", "ranks"), s.Rate)}
	for i := range results {
		r := &results[i]
		s := &r.Setting
		c.Rows = append(c.Rows, cost{s.Order, s.Gateways, s.CacheSize, s.DiskSize, c.epoch(s, &r.Epochs[0]), c.epoch(s, r.Later()), s.Small(d)})
	}
	slices.SortStableFunc(c.Rows, func(a, b cost) int {
		return cmp.Or(cmp.Compare(a.Later.Cost, b.Later.Cost), cmp.Compare(a.First.Cost, b.First.Cost))
	})
	return c
}

func (c *Costs) epoch(s *simulate.Setting, e *simulate.Epoch) epochCost {
	x := epochCost{Seconds: e.Time.Seconds(), Used: map[string]float64{}, Costs: map[string]float64{}}
	for _, r := range resources {
		x.Used[r.name] = r.used(s, e)
	}
	for _, p := range c.Prices {
		x.Costs[p.Resource] = p.Price * x.Used[p.Resource]
		x.Cost += x.Costs[p.Resource]
	}
	return x
}

func (c *Costs) print(w io.Writer) {
	fmt.Fprintf(w, "\ncost of an epoch, %s, cheapest later epoch first; columns after = are parts of a later epoch's cost:\n\n", c.job)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "shuffle\twindow\tgateways\tcache\tdisk\tfirst epoch\tlater epoch\t")
	for i, p := range c.Prices {
		fmt.Fprintf(t, "%c %s\t", "=+"[min(i, 1)], p.Resource)
	}
	fmt.Fprintln(t)
	for _, r := range c.Rows {
		disk := "-"
		if r.Disk > 0 {
			disk = words.Size(r.Disk)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t", r.Shuffle, window(r.Params), r.Gateways, words.Size(r.Cache), disk, money(r.First.Cost), money(r.Later.Cost))
		for _, p := range c.Prices {
			fmt.Fprintf(t, "%s\t", money(r.Later.Costs[p.Resource]))
		}
		fmt.Fprintln(t, mark(r.Small, "cache too small"))
	}
	t.Flush()
}

// money formats an amount with three digits, in the unit of the prices.
func money(x float64) string {
	decimals := 2
	for least := 1.0; x > 0 && x < least && decimals < 12; least /= 10 {
		decimals++
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}
