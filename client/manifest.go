package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
)

// addManifest fetches the batch's manifest and checks it against the batch.
func (c *Client) addManifest(ctx context.Context, opt Options, b *Batch) error {
	name := cmp.Or(c.cfg.Dataset, b.Dataset)
	if name == "" {
		return fmt.Errorf("manifest: the response has no Content-Location with the dataset: %w", ErrProtocol)
	}
	path := fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d/manifest", url.PathEscape(name), opt.Epoch, b.Number)
	_, err := retry(ctx, c, opt.reader(), func(ctx context.Context, gw *gateway, came *atomic.Int64) (struct{}, error) {
		m := struct {
			Samples lines `json:"samples"`
		}{lines{most: b.count}}
		err := c.askJSON(ctx, gw, request{method: http.MethodGet, path: path, query: opt.query(b.Generation)}, manifestLimit(b.count), &m, came)
		if err == nil {
			err = b.setManifest(m.Samples.read)
		}
		return struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return nil
}

// manifestLimit returns the maximum size of a manifest: a key has at most 4 KiB, and JSON escapes
// enlarge it at most sixfold.
func manifestLimit(samples int) int64 {
	return min(maxJSON, 64<<10+int64(samples)*(48<<10))
}

// lines are the samples of a manifest, at most as many as the batch has: a short JSON line becomes
// a far larger Sample.
type lines struct {
	most int
	read []Sample
}

// UnmarshalJSON decodes an array element by element.
func (l *lines) UnmarshalJSON(p []byte) error {
	in := json.NewDecoder(bytes.NewReader(p))
	if open, err := in.Token(); err != nil || open != json.Delim('[') {
		return fmt.Errorf("samples are not an array: %w", ErrProtocol)
	}
	l.read = []Sample{}
	for in.More() {
		if len(l.read) == l.most {
			return fmt.Errorf("more than the batch's %d samples: %w", l.most, ErrProtocol)
		}
		var s struct {
			Sample
			KeyBytes []byte `json:"key_base64"` // set for keys that are not UTF-8
		}
		if err := in.Decode(&s); err != nil {
			return fmt.Errorf("sample %d: %w", len(l.read), err)
		}
		if len(s.KeyBytes) > 0 {
			s.Key = string(s.KeyBytes)
		}
		l.read = append(l.read, s.Sample)
	}
	return nil
}

// setManifest sets the manifest if the body contains all its samples.
func (b *Batch) setManifest(samples []Sample) error {
	if len(samples) != b.count {
		return fmt.Errorf("manifest has %d samples, but the batch has %d: %w", len(samples), b.count, ErrProtocol)
	}
	starts, err := b.place(samples)
	if err != nil {
		return err
	}
	if samples == nil {
		samples = []Sample{}
	}
	b.manifest, b.starts = samples, starts
	return nil
}
