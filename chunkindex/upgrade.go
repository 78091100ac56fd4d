package chunkindex

import (
	"bytes"
	"context"
	"crypto/sha256"
)

// saysTheSame reports whether the current generation is of an older format version and says of these shards what a new index would, so that it
// stays: a new one would have another generation, and nothing that names the old one would find it.
func (b *builder) saysTheSame(ctx context.Context, shards []shardScan) (bool, error) {
	if b.opt.Upgrade || b.old == nil || b.old.head.version == indexVersion || len(shards) != len(b.old.shards) {
		return false, nil
	}
	for i, s := range shards {
		if old := &b.old.shards[i]; s.key != old.Key || s.size != old.Size {
			return false, nil
		}
	}
	meta := b.meta()
	meta.Classes = b.old.meta.Classes // of which older versions say nothing
	now, err := encodeMeta(meta)
	if err != nil {
		return false, err
	}
	then, err := encodeMeta(b.old.meta)
	if err != nil || !bytes.Equal(now, then) {
		return false, err
	}
	all := newShardsOf(ctx, b.old, 0, len(b.old.shards))
	if all.check() != nil {
		return false, nil // what cannot be taken over is no reason to keep it
	}
	said, err := sumRecords([]shardScan{{scan: all}})
	if err != nil {
		return false, err
	}
	says, err := sumRecords(shards)
	return says == said, err
}

// sumRecords is a digest of everything that scans say.
func sumRecords(shards []shardScan) (digest [sha256.Size]byte, err error) {
	sum := sha256.New()
	var frame []byte
	for i, s := range shards {
		if s.scan == nil {
			continue
		}
		err := s.scan.each(func(r *chunkRecord) error {
			for j := range r.extents {
				r.extents[j].Shard += i
			}
			frame = appendScanFrame(frame, r)
			sum.Write(frame)
			return nil
		})
		if err != nil {
			return digest, err
		}
	}
	return [sha256.Size]byte(sum.Sum(nil)), nil
}
