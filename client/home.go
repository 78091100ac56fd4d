package client

import (
	"context"
	"log/slog"
	"math/bits"
	"slices"
	"strings"
)

// HomeByRank returns the gateway floor(rank*gateways/worldSize), for gateways that all ranks list
// in the same order. With share=locality this gateway stores the samples that the rank reads (see
// Config.Home).
func HomeByRank(rank, worldSize uint64, gateways int) int {
	if rank >= worldSize {
		return 0
	}
	hi, lo := bits.Mul64(rank, uint64(gateways))
	at, _ := bits.Div64(hi, lo, worldSize)
	return int(at)
}

// adviseHomes logs once, on rank 0, that homes would reduce store reads. It applies if there are
// several gateways in a fixed order that form no cluster, and if the batch's order supports homes.
func (c *Client) adviseHomes(ctx context.Context, opt Options, b *Batch) {
	gateways := uint64(len(c.fleet.sources))
	switch {
	case gateways < 2 || gateways > opt.WorldSize || opt.Rank != 0:
		return // too few or too many gateways, or another rank logs it
	case c.cfg.Home != nil || opt.Share != "" || opt.Balance != "" && opt.Balance != "samples":
		return // the job has configured sharing
	case slices.ContainsFunc(c.fleet.sources, func(s source) bool { return s.kind == addresses }):
		return // DNS addresses have no fixed order
	case !strings.Contains(b.Location, "shuffle=slot") && !strings.Contains(b.Location, "strata="):
		return // samples have no homes in this order
	}
	c.fleet.advised.Do(func() {
		if d, err := c.described(ctx); err != nil || d.Cluster {
			return
		}
		slog.Warn("each gateway reads the whole dataset from the store: "+
			"with home=rank, share=locality and homes=GATEWAYS they read it only once in total",
			"dataset", b.Dataset, "gateways", gateways, "reads", gateways, "homes", gateways)
	})
}
