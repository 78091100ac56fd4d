package gateway

import (
	"context"
	"fmt"
	"net/http"

	"github.com/millrace-data/millrace/shuffle"
)

// getCluster shows the other gateways as this one sees them.
func (g *Gateway) getCluster(x *exchange) error {
	if err := noQuery(x); err != nil {
		return err
	}
	if g.cfg.Cluster == nil {
		return &problem{
			Status: http.StatusNotFound, Code: codeNotFound,
			Detail: "this gateway belongs to no cluster; serve --cluster NAME --join WHERE --peer-listen ADDRESS makes it a member of one",
		}
	}
	x.w.Header().Set("Cache-Control", "no-store")
	return sendJSON(x, g.cfg.Cluster())
}

// Plan returns a plan and an epoch of it as a request of one's own would have them, for a reader that another gateway has
// told of, and what ends their use. It opens nothing for it: with importance or a subset what they name must be in use here already. A
// dataset or generation that is not served is an error, and so are parameters that no request could have.
func (g *Gateway) Plan(
	ctx context.Context, dataset, generation string, params shuffle.Params, epoch uint64,
) (_ *shuffle.Plan, _ *shuffle.Epoch, leave func(), err error) {
	d := g.byName[dataset]
	if d == nil || d.Index.Generation() != generation {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: generation %.12s is not served", dataset, generation)
	}
	if params.Window > maxWindow || params.Strata > maxStrata {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: window %d and strata %d, more than a request may have", dataset, params.Window, params.Strata)
	}
	c, leaveChoice, ok := g.opened(d, params)
	if !ok {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: snapshot %.12s or subset %.12s is not open here", dataset, params.Importance, params.Subset)
	}
	defer func() {
		if leave == nil { // an error, or a panic
			leaveChoice()
		}
	}()
	plan, at, leavePlan, err := g.plans.epoch(ctx, planKey{dataset: d, params: params, epoch: epoch, isEpoch: true}, c)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("plan %s for another gateway: %w", dataset, err)
	}
	return plan, at, func() { leavePlan(); leaveChoice() }, nil
}
