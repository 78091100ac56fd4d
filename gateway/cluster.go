package gateway

import (
	"context"
	"fmt"

	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/shuffle"
)

// getCluster sends this gateway's view of the cluster.
func (g *Gateway) getCluster(x *exchange) error {
	if err := noQuery(x); err != nil {
		return err
	}
	if g.cfg.Cluster == nil {
		return &problem{
			Code:   codeNotFound,
			Detail: "this gateway is not in a cluster: start it with --cluster NAME --join PEERS --peer-listen ADDRESS",
		}
	}
	return sendJSON(x, g.cfg.Cluster())
}

// Plan returns the plan and epoch of a reader that another gateway has announced. The caller must
// call leave when it has finished with them. It fails if the dataset or generation is not served.
func (g *Gateway) Plan(
	ctx context.Context, dataset, generation string, params shuffle.Params, epoch uint64,
) (_ *shuffle.Plan, _ *shuffle.Epoch, leave func(), err error) {
	d, release, ok := g.datasets.AcquireOpen(dataset, generation)
	if !ok {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: generation %.12s is not served", dataset, generation)
	}
	held := plans.Holds{release}
	defer held.Drop()
	plan, at, err := g.plans.ForReader(ctx, &held, d.Dataset, params, epoch)
	if err != nil {
		return nil, nil, nil, err
	}
	return plan, at, held.Keep(), nil
}
