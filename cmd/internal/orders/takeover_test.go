package orders

import (
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/datapath/simulate"
)

// TestGatewayOf_AgreesWithClient: the simulation assigns each rank the same gateway as the client
// does.
func TestGatewayOf_AgreesWithClient(t *testing.T) {
	for ranks := range uint64(70) {
		for rank := range ranks {
			for gateways := 1; gateways <= 70; gateways++ {
				if got, want := simulate.GatewayOf(rank, ranks, gateways), client.HomeByRank(rank, ranks, gateways); got != want {
					t.Fatalf("rank %d of %d, %d gateways: got %d, want %d", rank, ranks, gateways, got, want)
				}
			}
		}
	}
}
