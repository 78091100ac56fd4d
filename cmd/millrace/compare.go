package main

import (
	"context"
	"io"
	"slices"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/orders"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// compareFlags are what only the comparison of a dataset's orders asks for.
type compareFlags struct{ orders.Question }

func (c *compareFlags) define(f *cli.Flags) {
	f.Numbers(&c.WorldSizes, "world-size", nil, "`N`, the ranks that share each batch (default 1); of a dataset N,..., to say what locality moves")
	f.Numbers(&c.Homes, "homes", nil, "`N`, the homes of --share locality, such as gateways (default the world size); of a dataset N,...")
	f.Numbers(&c.Gateways, "gateways", nil, "of a dataset, `N`,... gateways that take the place of one for each home, to say what they read again")
	f.Size(&c.Cache, "cache-size", 0, "size of a cache with which to count the store's requests in later epochs too")
	f.Price(&c.Price, "request-price", "price of a million requests of the store, to print what an epoch costs (default none)")
}

// checkGateway refuses what only a dataset's comparison answers, and hands on the ranks and their homes.
func (c *compareFlags) checkGateway(f *cli.Flags, p *planFlags) {
	for _, name := range []string{"cache-size", "gateways", "request-price"} {
		if f.Given(name) {
			f.Fault("--%s: want a dataset in place of a gateway's address: the index alone answers it", name)
		}
	}
	one := func(name string, list []int) uint64 {
		switch len(list) {
		case 0:
			return 0
		case 1:
			return uint64(list[0])
		}
		f.Fault("--%s: want one number for a gateway, or a dataset in place of the gateway's address", name)
		return 0
	}
	p.opt.WorldSize, p.opt.Homes = one("world-size", c.WorldSizes), one("homes", c.Homes)
}

// checkDataset refuses what only a gateway answers.
func (c *compareFlags) checkDataset(f *cli.Flags, dataset string) {
	own := []string{"batch_size", "world_size", "homes"}
	for _, name := range append(address.NamesOf(^(address.Order | address.Showing)), "dataset", "epoch", "seed") {
		if flag := flagOf(name); !slices.Contains(own, name) && f.Given(flag) {
			f.Fault("--%s is a gateway's to answer; the orders of %s do not depend on it", flag, dataset)
		}
	}
	if len(c.Homes) > 0 && len(c.WorldSizes) == 0 {
		f.Fault("--homes: want --world-size too, the number of ranks that share them")
	}
	switch {
	case len(c.Gateways) == 0:
	case len(c.WorldSizes) == 0:
		f.Fault("--gateways: want --world-size too, the number of ranks that read from them")
	case slices.Max(c.Gateways) > slices.Max(c.WorldSizes):
		f.Fault("--gateways %d: want at most --world-size, %d: a gateway without a rank reads nothing", slices.Max(c.Gateways), slices.Max(c.WorldSizes))
	}
}

func (a *app) compare(ctx context.Context, s *location.Stores, l location.Location, p *planFlags, c *compareFlags) error {
	d, err := s.OpenIndex(ctx, l, chunkindex.OpenOptions{})
	if err != nil {
		return err
	}
	defer d.Close()
	q, opt, def := c.Question, p.opt, d.Index.Defaults()
	q.BatchSize, q.Shuffle, q.Window, q.PartSize = opt.BatchSize, opt.Shuffle, opt.Window, datapath.DefaultPartSize
	if opt.Shuffle == "" && !shuffle.UsesWindow(def.Shuffle) {
		opt.Window = 0 // of other rows
	}
	if q.Order, err = orderOf(&opt, def); err != nil {
		return cli.Usage(err, "millrace plan")
	}
	out, err := orders.Compare(d.Index, q)
	if err != nil {
		return err
	}
	for _, line := range out.Warnings() {
		a.Say("%s", line)
	}
	return a.Print(&out, func(w io.Writer) { out.Print(w, l.String()) })
}
