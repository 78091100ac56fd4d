package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
)

// WarmProgress reports how much of an epoch a gateway has loaded into memory and onto disk.
type WarmProgress struct {
	Dataset string `json:"dataset"`
	Epoch   uint64 `json:"epoch"`
	Next    uint64 `json:"next"`    // all positions before this one are warm
	Samples uint64 `json:"samples"` // positions in the epoch
	Chunks  uint64 `json:"chunks"`  // loaded chunks
	Bytes   uint64 `json:"bytes"`
	Full    bool   `json:"full"` // no tier has space for more
	Done    bool   `json:"done"` // the epoch is warm to its end
}

// Warm makes a gateway load the chunks of an epoch before a job reads them, in the job's order. It
// returns when the whole epoch is warm or when no tier has space for more. progress may be nil; it
// receives bytes of the dataset.
func (c *Client) Warm(ctx context.Context, opt Options, progress Progress) (WarmProgress, error) {
	set, err := c.Describe(ctx)
	if err != nil {
		return WarmProgress{}, err
	}
	q := opt.Query()
	if opt.Generation == "" && set.Generation != "" {
		q.Set("generation", set.Generation) // pins one generation for all steps, even if the gateway loads another one
	}
	q.Set("epoch", strconv.FormatUint(opt.Epoch, 10))
	w := WarmProgress{Dataset: set.Name, Epoch: opt.Epoch}
	for !w.Done && !w.Full {
		q.Set("from", strconv.FormatUint(w.Next, 10))
		if err := w.step(ctx, c, datasetPath(set.Name)+"/warm", q); err != nil {
			return WarmProgress{}, err
		}
		if progress != nil {
			progress(w.portion(set.Bytes), int64(set.Bytes))
		}
	}
	return w, nil
}

// step requests one piece, from the end of the previous one, and adds it to the totals.
func (w *WarmProgress) step(ctx context.Context, c *Client, path string, q url.Values) error {
	var piece WarmProgress
	if err := c.Post(ctx, path, q, nil, &piece); err != nil {
		return err
	}
	if piece.Next < w.Next || piece.Next > piece.Samples {
		return fmt.Errorf("warm from position %d: next is %d of %d: %w", w.Next, piece.Next, piece.Samples, ErrProtocol)
	}
	w.Next, w.Samples, w.Full, w.Done = piece.Next, piece.Samples, piece.Full, piece.Done
	w.Chunks += piece.Chunks
	w.Bytes += piece.Bytes
	return nil
}

// portion estimates the warm bytes of the dataset: it assumes that bytes are spread evenly over
// positions.
func (w *WarmProgress) portion(bytes uint64) int64 {
	if w.Samples == 0 {
		return int64(bytes)
	}
	return int64(float64(bytes) * (float64(w.Next) / float64(w.Samples)))
}
