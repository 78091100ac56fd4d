package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
)

// WarmProgress says how much of an epoch a gateway has loaded into memory and onto disk.
type WarmProgress struct {
	Dataset string `json:"dataset"`
	Epoch   uint64 `json:"epoch"`
	Next    uint64 `json:"next"`    // position up to which the epoch is warm
	Samples uint64 `json:"samples"` // positions of the epoch
	Chunks  uint64 `json:"chunks"`  // that were brought
	Bytes   uint64 `json:"bytes"`
	Full    bool   `json:"full"` // no tier has room for more
	Done    bool   `json:"done"` // the epoch is warm to its end
}

// Warm has a gateway bring what an epoch needs before a job asks for it, in the order in which the job will. It ends when
// the whole epoch is warm, or no tier has room for more. Progress is told of the dataset's bytes; nil: nobody.
func (c *Client) Warm(ctx context.Context, opt Options, progress Progress) (WarmProgress, error) {
	set, err := c.Describe(ctx)
	if err != nil {
		return WarmProgress{}, err
	}
	q := opt.Query()
	if opt.Generation == "" && set.Generation != "" {
		q.Set("generation", set.Generation) // one for all pieces, though the gateway may move to another
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

// step asks for one piece, from where the one before ended, and adds it up.
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

// portion returns how many of a dataset's bytes are warm: they are taken to lie evenly over the epoch's positions.
func (w *WarmProgress) portion(bytes uint64) int64 {
	if w.Samples == 0 {
		return int64(bytes)
	}
	return int64(float64(bytes) * (float64(w.Next) / float64(w.Samples)))
}
