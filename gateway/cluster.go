package gateway

import (
	"context"
	"fmt"

	"github.com/millrace-data/millrace/shuffle"
)

// getCluster shows the other gateways as this one sees them.
func (g *Gateway) getCluster(x *exchange) error {
	if err := noQuery(x); err != nil {
		return err
	}
	if g.cfg.Cluster == nil {
		return &problem{
			Code:   codeNotFound,
			Detail: "this gateway belongs to no cluster; serve --cluster NAME --join WHERE --peer-listen ADDRESS makes it a member of one",
		}
	}
	return sendJSON(x, g.cfg.Cluster())
}

// Plan returns a plan and an epoch of it for a reader that another gateway has told of, and the function that ends
// their use. A dataset or a generation that is not served is an error.
func (g *Gateway) Plan(
	ctx context.Context, dataset, generation string, params shuffle.Params, epoch uint64,
) (_ *shuffle.Plan, _ *shuffle.Epoch, leave func(), err error) {
	d, release, ok := g.datasets.AcquireOpen(dataset, generation)
	if !ok {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: generation %.12s is not served", dataset, generation)
	}
	plan, at, end, err := g.plans.ForReader(ctx, d.Dataset, params, epoch)
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	return plan, at, func() { end(); release() }, nil
}
