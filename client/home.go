package client

import "math/bits"

// HomeByRank gives rank r of w, of p gateways that all ranks list in one order, the gateway floor(r*p/w): with
// split=locality the one that holds what the rank reads (Config.Home).
func HomeByRank(rank, worldSize uint64, gateways int) int {
	if rank >= worldSize {
		return 0
	}
	hi, lo := bits.Mul64(rank, uint64(gateways))
	at, _ := bits.Div64(hi, lo, worldSize)
	return int(at)
}
