package client

import (
	"log/slog"
	"math/bits"
	"slices"
	"strings"
)

// HomeByRank gives rank r of w, of p gateways that all ranks list in one order, the gateway floor(r*p/w): with
// share=locality the one that holds what the rank reads (Config.Home).
func HomeByRank(rank, worldSize uint64, gateways int) int {
	if rank >= worldSize {
		return 0
	}
	hi, lo := bits.Mul64(rank, uint64(gateways))
	at, _ := bits.Div64(hi, lo, worldSize)
	return int(at)
}

// adviseHomes tells a job whose ranks read through a list of gateways, or a pattern, what homes would save: rank 0 once, if the
// order of the batch has homes. The client cannot see whether the gateways are one cluster.
func (c *Client) adviseHomes(opt Options, b *Batch) {
	gateways := uint64(len(c.fleet.sources))
	switch {
	case gateways < 2 || gateways > opt.WorldSize || opt.Rank != 0:
		return // nothing to share out, or another rank says it
	case c.cfg.Home != nil || opt.Share != "" || opt.Balance == "bytes":
		return // the job has chosen
	case slices.ContainsFunc(c.fleet.sources, func(s source) bool { return s.kind == addresses }):
		return // they have no order
	case !strings.Contains(b.Location, "shuffle=slot") && !strings.Contains(b.Location, "strata="):
		return // samples have no homes
	}
	c.fleet.advised.Do(func() {
		slog.Warn("each gateway reads the whole dataset from the store, unless they are a cluster: "+
			"with home=rank, share=locality and homes=GATEWAYS they read it once together",
			"dataset", b.Dataset, "gateways", gateways, "reads", gateways, "homes", gateways)
	})
}
